"use strict";
// What pages do: sort tables, draw charts when they are looked at, show the gallery. Nothing is loaded from
// elsewhere. Text of records only ever becomes text (textContent), never HTML.
(() => {
  const data = (element) => JSON.parse(element.textContent);
  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // Tables

  const number = (text) => {
    const found = parseFloat(text.replace(/,/g, "").replace(/^[−–]/, "-"));
    return Number.isNaN(found) ? null : found;
  };

  function sortable(table) {
    const heads = [...table.querySelectorAll("thead tr:last-child th")];
    const body = table.tBodies[0];
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return;
      const button = make("button", "", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      head.setAttribute("aria-sort", "none");
      head.order = (up) => {
        const texts = new Map([...body.rows].map((row) => [row, row.cells[column].textContent.trim()]));
        const given = [...texts.values()].filter((text) => text && text !== "-");
        const numeric = given.every((text) => number(text) !== null);
        if (up === undefined) up = !numeric;
        const order = (a, b) => {
          const [one, other] = [texts.get(a), texts.get(b)];
          const [oneGone, otherGone] = [!one || one === "-", !other || other === "-"];
          if (oneGone || otherGone) return oneGone - otherGone;
          const found = numeric ? number(one) - number(other) : one.localeCompare(other);
          return up ? found : -found;
        };
        body.append(...[...body.rows].sort(order));
        heads.forEach((other) => other.hasAttribute("aria-sort") && other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
      };
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        head.order(now === "none" ? undefined : now === "descending");
      });
    });
  }

  // <div data-filters="table"> holds inputs, whose words a row must hold, and selects, which name the text of
  // one column (data-column) or of any.
  // What a list of other names says, a filter does not ask for.
  const words = (row) => [...row.cells].map((cell) => (cell.querySelector("details") ? "" : cell.textContent))
    .join(" ").toLowerCase();

  function filterAll() {
    document.querySelectorAll("[data-filters]").forEach((group) => {
      const controls = [...group.querySelectorAll("input, select")].filter((control) => control.value);
      document.querySelectorAll(`${group.dataset.filters} tbody tr`).forEach((row) => {
        row.hidden = !controls.every((control) => {
          const column = control.dataset.column;
          if (column !== undefined) return row.cells[column].textContent.trim() === control.value;
          return words(row).includes(control.value.toLowerCase());
        });
      });
    });
  }

  // Charts

  const dark = matchMedia("(prefers-color-scheme: dark)");

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = {
      automargin: true, gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--soft"),
    };
    return {
      layout: {
        xaxis: axis, yaxis: axis, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: "system-ui, sans-serif", size: 13, color: colour("--ink") },
        hoverlabel: { align: "left" },
      },
    };
  }

  // A legend of many names below a chart takes room that the chart would lose: it gets room of its own.
  function layoutOf(chart, canvas) {
    const layout = { ...chart.layout, template: theme(), uirevision: "kept" };
    const names = chart.data.filter((trace) => trace.showlegend !== false).map((trace) => trace.name || "");
    if (names.length < 2 || !(layout.legend && layout.legend.y < 0)) return layout;
    const widest = 60 + 7.5 * Math.max(...names.map((name) => name.length));
    const inRow = Math.max(1, Math.floor((canvas.clientWidth - 80) / widest));
    const room = 20 * Math.ceil(names.length / inRow);
    const height = (layout.height || 400) + room + 20;
    const margin = { ...layout.margin, b: 110 + room };
    const y = -90 / (height - margin.t - margin.b);
    return { ...layout, height, margin, legend: { ...layout.legend, y, maxheight: 5000 } };
  }

  function draw(figure) {
    if (figure.drawn || !window.Plotly) return;
    figure.drawn = true;
    const chart = data(figure.querySelector("script"));
    const canvas = figure.querySelector("div");
    const config = { displaylogo: false, responsive: true };
    window.Plotly.newPlot(canvas, chart.data, layoutOf(chart, canvas), config).then(() => {
      figure.dataset.drawn = "yes";
      if (chart.pictures) pictureOnHover(canvas, chart.pictures);
    });
  }

  // A chart that is drawn goes on in the place of a newer one, with its zoom and what its legend hides.
  function goOn(old, figure) {
    if (!old.drawn || old.dataset.drawn !== "yes") return;
    const chart = data(figure.querySelector("script"));
    const canvas = old.querySelector("div");
    figure.querySelector("div").replaceWith(canvas);
    figure.drawn = true;
    figure.dataset.drawn = "yes";
    window.Plotly.react(canvas, chart.data, layoutOf(chart, canvas));
  }

  const watcher = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      watcher.unobserve(entry.target);
      draw(entry.target);
    }),
    { rootMargin: "300px" },
  );

  dark.addEventListener("change", () => {
    document.querySelectorAll("figure.plot").forEach((figure) => {
      if (figure.drawn) window.Plotly.relayout(figure.querySelector("div"), { template: theme() });
    });
  });
  addEventListener("beforeprint", () => {
    document.querySelectorAll("figure.plot").forEach(draw);
    document.querySelectorAll("img[data-row]").forEach((image) => { image.src = picture(image.dataset.row); });
  });

  // Pictures

  let pictures = null;
  function picture(row) {
    if (pictures === null) {
      const element = document.getElementById("pictures");
      pictures = element ? data(element) : {};
    }
    return pictures[row] ? "data:image/webp;base64," + pictures[row] : null;
  }

  const lazy = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      lazy.unobserve(entry.target);
      entry.target.src = picture(entry.target.dataset.row);
    }),
    { rootMargin: "600px" },
  );

  function tile(row, name, kind) {
    const box = make("span", "tile " + kind);
    box.title = name;
    if (picture(row)) {
      const image = make("img");
      image.alt = name;
      image.dataset.row = row;
      lazy.observe(image);
      box.append(image);
    } else {
      box.append(make("small", "", name));
    }
    return box;
  }

  function pictureOnHover(canvas, rows) {
    const box = make("div", "hover-picture");
    box.hidden = true;
    const [image, words] = [make("img"), make("div")];
    image.alt = "";
    box.append(image, words);
    document.body.append(box);
    canvas.on("plotly_hover", (event) => {
      const point = event.points[0];
      const trace = rows[point.curveNumber];
      const found = picture("map." + trace.rows[point.pointIndex]);
      image.hidden = !found;
      if (found) image.src = found;
      words.textContent = trace.name;
      box.hidden = false;
      box.style.left = Math.min(event.event.clientX + 16, innerWidth - 190) + "px";
      box.style.top = Math.min(event.event.clientY + 16, innerHeight - 160) + "px";
    });
    canvas.on("plotly_unhover", () => { box.hidden = true; });
  }

  const FIRST = 6; // queries that are shown before somebody asks for more
  const REASONS = { random: "drawn at random", hardest: "hardest for all methods", differs: "methods differ most" };

  function gallery(root) {
    const shown = data(root.querySelector("script"));
    const list = root.querySelector(".queries");
    const [why, method] = root.querySelectorAll("select");
    const name = (row) => shown.names[shown.labels[row]];
    const more = make("button", "plain");
    more.type = "button";
    let limit = FIRST;
    function shownFor(query, who) {
      if (method.value === "*") return shown.few.includes(who) || (query.between || []).includes(who);
      return !method.value || who === method.value;
    }
    function render() {
      list.replaceChildren();
      const chosen = shown.queries.filter((query) => !why.value || query.why === why.value);
      more.hidden = chosen.length <= limit;
      more.textContent = `Show the other ${chosen.length - limit} queries`;
      for (const query of chosen.slice(0, limit)) {
        const card = make("div", "query");
        const head = make("div");
        head.append(tile(query.row, name(query.row), "large"), make("p", "", name(query.row)));
        const reason = query.between ? `${query.between[0]} does best, ${query.between[1]} worst` : "";
        head.append(make("p", "lead", [REASONS[query.why], reason].filter(Boolean).join(": ")));
        const answers = make("div", "answers");
        for (const [who, found] of Object.entries(shown.methods)) {
          if (!shownFor(query, who)) continue;
          const strip = make("div", "strip");
          for (const [row, similarity] of found[query.row]) {
            const right = shown.labels[row] === shown.labels[query.row];
            const words = `${right ? "right" : "wrong"}: ${name(row)}, similarity ${similarity.toFixed(3)}`;
            const box = tile(row, words, right ? "right" : "wrong");
            box.append(make("b", "", right ? "✓" : "✗"));
            strip.append(box);
          }
          answers.append(make("span", "", who), strip);
        }
        card.append(head, answers);
        list.append(card);
      }
    }
    [why, method].forEach((choice) => choice.addEventListener("change", () => { limit = FIRST; render(); }));
    more.addEventListener("click", () => { limit = Infinity; render(); });
    list.after(more);
    render();
  }

  function enhance(root) {
    root.querySelectorAll("table.sortable:not([data-ready])").forEach((table) => {
      table.dataset.ready = "yes";
      sortable(table);
    });
    root.querySelectorAll("figure.plot").forEach((figure) => watcher.observe(figure));
    root.querySelectorAll(".gallery:not([data-ready])").forEach((element) => {
      element.dataset.ready = "yes";
      gallery(element);
    });
  }
  document.querySelectorAll("[data-filters]").forEach((group) => group.addEventListener("input", filterAll));
  window.levelfield = { enhance, filterAll, goOn, make };
  enhance(document);
})();
