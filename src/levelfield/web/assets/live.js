"use strict";
// What the live pages do beyond page.js: ask for what has changed, search with a picture.
(() => {
  const { enhance, filterAll, make } = window.levelfield;
  const EVERY = 1500; // milliseconds between two questions

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
            const chosen = new Set([...part.querySelectorAll("input:checked")].map((box) => box.value));
            part.replaceChildren(...fresh.body.childNodes);
            part.querySelectorAll("input[type=checkbox]").forEach((box) => { box.checked = chosen.has(box.value); });
            version = answer.headers.get("x-version") || part.querySelector("[data-version]").dataset.version;
            enhance(part);
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
