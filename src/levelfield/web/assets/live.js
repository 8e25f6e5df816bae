"use strict";
// What the live pages do beyond page.js: ask for what has changed, search with a picture.
(() => {
  const { enhance, filterAll, goOn, make } = window.levelfield;
  const EVERY = 1500; // milliseconds between two questions

  // What somebody has done to a part of the page, to be done again to a newer one: boxes that are ticked, the
  // order of tables, charts, where the keyboard and the scrolling are.
  function remember(part) {
    const all = (what) => [...part.querySelectorAll(what)];
    const chosen = new Set(all("input:checked").map((box) => box.value));
    const sorted = all("thead th").map((head) => head.getAttribute("aria-sort"));
    const figures = all("figure.plot");
    const name = (element) => `${element.tagName} ${element.value || element.getAttribute("aria-label") || element.textContent}`;
    const focused = part !== document.activeElement && part.contains(document.activeElement) && name(document.activeElement);
    const scrolled = new Map(all("[role=region]").map((region) => [name(region), region.scrollLeft]));
    return () => {
      all("input[type=checkbox]").forEach((box) => { box.checked = chosen.has(box.value); });
      const heads = all("thead th");
      if (heads.length === sorted.length) heads.forEach((head, number) => {
        if (head.order && ["ascending", "descending"].includes(sorted[number])) head.order(sorted[number] === "ascending");
      });
      all("figure.plot").forEach((figure, number) => { if (figures[number]) goOn(figures[number], figure); });
      all("[role=region]").forEach((region) => { region.scrollLeft = scrolled.get(name(region)) || 0; });
      const again = focused && all("a, button, input, summary, [tabindex]").find((element) => name(element) === focused);
      if (again) again.focus({ preventScroll: true });
    };
  }

  // <div data-live="/address"> holds a part of the page; its first child says which version it is.
  function keepFresh(part) {
    let version = part.dataset.version;
    async function ask() {
      if (!document.hidden) {
        try {
          const answer = await fetch(`${part.dataset.live}?since=${encodeURIComponent(version)}`);
          if (answer.status === 200) {
            const text = await answer.text();
            const fresh = new DOMParser().parseFromString(text, "text/html");
            const restore = remember(part);
            part.replaceChildren(...fresh.body.childNodes);
            version = answer.headers.get("x-version") || part.querySelector("[data-version]").dataset.version;
            enhance(part);
            restore();
            filterAll();
          }
          part.removeAttribute("data-lost");
        } catch {
          part.setAttribute("data-lost", "the server does not answer; trying again");
        }
      }
      setTimeout(ask, EVERY);
    }
    setTimeout(ask, EVERY);
  }

  document.querySelectorAll("[data-live]").forEach(keepFresh);

  // The search box

  const box = document.getElementById("search-box");
  if (!box) return;
  const [input, status, out] = ["picture", "status", "answers"].map((name) => document.getElementById(name));

  async function show(body, type, url, preview) {
    status.textContent = "Searching…";
    const answer = await fetch(url, { method: body ? "POST" : "GET", body, headers: body ? { "content-type": type } : {} });
    const found = await answer.json();
    if (!answer.ok) {
      status.textContent = found.error;
      return;
    }
    out.replaceChildren();
    status.textContent = "";
    const query = document.getElementById("query");
    query.replaceChildren();
    const image = make("img");
    image.alt = "the query";
    image.src = preview;
    query.append(image);
    for (const one of found.answers) {
      const column = make("section");
      column.append(make("h2", "", one.title), make("p", "lead", one.verdict));
      one.notes.forEach((note) => column.append(make("p", "under", note)));
      const list = make("ol", "hits");
      for (const hit of one.neighbours) {
        const item = make("li", hit.is_match === false ? "below" : "");
        const button = make("button", "plain");
        button.type = "button";
        button.title = "search with this picture";
        const picture = make("img");
        picture.alt = hit.label || hit.name;
        picture.loading = "lazy";
        picture.src = `/search/${one.index}/picture/${hit.row}`;
        picture.addEventListener("error", () => picture.replaceWith(make("small", "", "the picture is gone")));
        button.append(picture);
        button.addEventListener("click", () => show(null, "", `/search/${one.index}/again/${hit.row}`, picture.src));
        const words = make("p");
        words.append(make("b", "", hit.label), ` ${hit.similarity.toFixed(3)}`);
        item.append(button, words, make("p", "name", hit.name));
        list.append(item);
      }
      column.append(list);
      out.append(column);
    }
  }

  function search(file) {
    if (!file) return;
    show(file, file.type || "application/octet-stream", "/search", URL.createObjectURL(file)).catch(() => {
      status.textContent = "The server does not answer.";
    });
  }
  input.addEventListener("change", () => search(input.files[0]));
  box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    box.classList.remove("over");
    search(event.dataTransfer.files[0]);
  });
  addEventListener("paste", (event) => search(event.clipboardData.files[0]));
})();
