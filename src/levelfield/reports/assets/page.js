"use strict";
// Script of all pages: sort tables, draw charts when they become visible, show the gallery. It loads nothing from
// other hosts. Text from records is inserted as text (textContent), never as HTML.
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

  // <div data-filters="table"> has inputs and selects. A row must contain the text of each input, and the value of
  // each select: in one column (data-column) or in any. Text inside <details> is not searched.
  const rowText = (row) => [...row.cells].map((cell) => (cell.querySelector("details") ? "" : cell.textContent))
    .join(" ").toLowerCase();

  function filterAll() {
    document.querySelectorAll("[data-filters]").forEach((group) => {
      const controls = [...group.querySelectorAll("input, select")].filter((control) => control.value);
      document.querySelectorAll(`${group.dataset.filters} tbody tr`).forEach((row) => {
        row.hidden = !controls.every((control) => {
          const column = control.dataset.column;
          if (column !== undefined) return row.cells[column].textContent.trim() === control.value;
          return rowText(row).includes(control.value.toLowerCase());
        });
      });
    });
  }

  // Charts

  const dark = matchMedia("(prefers-color-scheme: dark)");

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = {
      automargin: true, gridcolor: color("--line"), zerolinecolor: color("--line"), linecolor: color("--soft"),
    };
    return {
      layout: {
        xaxis: axis, yaxis: axis, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: "system-ui, sans-serif", size: 13, color: color("--ink") },
        hoverlabel: { align: "left" },
      },
    };
  }

  // Make the chart higher if the legend below it has many names.
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
    const config = { displaylogo: false, responsive: true, displayModeBar: false };
    window.Plotly.newPlot(canvas, chart.data, layoutOf(chart, canvas), config).then(() => {
      figure.dataset.drawn = "yes";
      if (chart.images) showImageOnHover(canvas, chart.images);
    });
  }

  // Keep a drawn chart when the page updates: move it to its new place with its zoom and hidden traces.
  function moveChart(old, figure) {
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
    document.querySelectorAll("details.section").forEach((part) => { part.open = true; });
    document.querySelectorAll("figure.plot").forEach(draw);
    document.querySelectorAll("img[data-row]").forEach((image) => { image.src = imageUrl(image.dataset.row); });
  });

  // Images

  let images = null;
  function imageUrl(row) {
    if (images === null) {
      const element = document.getElementById("images");
      images = element ? data(element) : {};
    }
    return images[row] ? "data:image/webp;base64," + images[row] : null;
  }

  const lazy = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      lazy.unobserve(entry.target);
      entry.target.src = imageUrl(entry.target.dataset.row);
    }),
    { rootMargin: "600px" },
  );

  function tile(row, name, kind) {
    const box = make("span", "tile " + kind);
    box.title = name;
    if (imageUrl(row)) {
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

  function showImageOnHover(canvas, rows) {
    const box = make("div", "hover-image");
    box.hidden = true;
    const [image, words] = [make("img"), make("div")];
    image.alt = "";
    box.append(image, words);
    document.body.append(box);
    canvas.on("plotly_hover", (event) => {
      const point = event.points[0];
      const trace = rows[point.curveNumber];
      const found = imageUrl("map." + trace.rows[point.pointIndex]);
      image.hidden = !found;
      if (found) image.src = found;
      words.textContent = trace.name;
      box.hidden = false;
      box.style.left = Math.min(event.event.clientX + 16, innerWidth - 190) + "px";
      box.style.top = Math.min(event.event.clientY + 16, innerHeight - 160) + "px";
    });
    canvas.on("plotly_unhover", () => { box.hidden = true; });
  }

  const FIRST = 6; // queries shown before "show more"
  const REASONS = { random: "random", hardest: "hardest for all methods", differs: "methods differ most" };

  function gallery(root) {
    const shown = data(root.querySelector("script"));
    const list = root.querySelector(".queries");
    const [why, method] = root.querySelectorAll("select");
    const name = (row) => shown.names[shown.labels[row]];
    // Lists say what is relevant where the dataset has them, else the class.
    const judge = (query, row) => {
      if (!shown.relevant) return shown.labels[row] === shown.labels[query] ? "right" : "wrong";
      if ((shown.ignored[query] || []).includes(row)) return "ignored";
      return (shown.relevant[query] || []).includes(row) ? "right" : "wrong";
    };
    const more = make("button", "plain");
    more.type = "button";
    let limit = FIRST;
    function isShown(query, name) {
      if (method.value === "*") return shown.few.includes(name) || (query.between || []).includes(name);
      return !method.value || name === method.value;
    }
    function render() {
      list.replaceChildren();
      const chosen = shown.queries.filter((query) => !why.value || query.why === why.value);
      more.hidden = chosen.length <= limit;
      more.textContent = `Show ${chosen.length - limit} more queries`;
      for (const query of chosen.slice(0, limit)) {
        const card = make("div", "query");
        const head = make("div");
        head.append(tile(query.row, name(query.row), "large"), make("p", "", name(query.row)));
        const reason = query.between ? `best: ${query.between[0]}, worst: ${query.between[1]}` : "";
        head.append(make("p", "lead", [REASONS[query.why], reason].filter(Boolean).join(": ")));
        const answers = make("div", "answers");
        for (const [methodName, found] of Object.entries(shown.methods)) {
          if (!isShown(query, methodName)) continue;
          const strip = make("div", "strip");
          for (const [row, similarity] of found[query.row]) {
            const kind = judge(query.row, row);
            const words = `${kind}: ${name(row)}, similarity ${similarity.toFixed(3)}`;
            const box = tile(row, words, kind);
            box.append(make("b", "", { right: "✓", wrong: "✗", ignored: "–" }[kind]));
            strip.append(box);
          }
          answers.append(make("span", "", methodName), strip);
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

  // <button data-copy="id">: copy the text of a hidden block.
  function copyButton(button) {
    const words = button.textContent;
    button.addEventListener("click", async () => {
      const text = data(document.getElementById(button.dataset.copy));
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        const area = make("textarea");
        area.value = text;
        document.body.append(area);
        area.select();
        button.textContent = document.execCommand("copy") ? "Copied" : "Copy failed";
        area.remove();
      }
      button.addEventListener("blur", () => { button.textContent = words; }, { once: true });
    });
  }

  function enhance(root) {
    root.querySelectorAll("button[data-copy]:not([data-ready])").forEach((button) => {
      button.dataset.ready = "yes";
      copyButton(button);
    });
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
  window.levelfield = { enhance, filterAll, moveChart, make };
  enhance(document);
})();
