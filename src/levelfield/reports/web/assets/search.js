"use strict";
// Script of the search page: search with a file, a pasted image or an image of the index.
(() => {
  const { make } = window.levelfield;
  const get = (name) => document.getElementById(name);
  const [box, input, status, out] = ["search-box", "query-file", "status", "answers"].map(get);
  let last = null; // the current query, searched again when an option changes
  let newest = 0; // number of the newest request; answers to older ones are dropped

  function options() {
    const chosen = new URLSearchParams({ k: get("search-k").value || "24", rerank: get("search-rerank").value });
    if (get("search-least").value) chosen.set("min_similarity", get("search-least").value);
    get("search-filter").value.split(";").map((part) => part.trim()).filter(Boolean)
      .forEach((part) => chosen.append("filter", part));
    return chosen;
  }

  // Text that may break after separators, never inside a word; the whole text is the tooltip.
  function breakable(element, text) {
    element.title = text;
    text.split(/(?<=[_\-./\s])/).forEach((part) => element.append(part, make("wbr")));
    return element;
  }

  function tile(hit, index) {
    const item = make("li", hit.is_match === false ? "below" : "");
    const button = make("button", "plain");
    button.type = "button";
    button.title = "search with this image";
    const thumbnail = make("img");
    thumbnail.alt = hit.label || hit.name;
    thumbnail.loading = "lazy";
    thumbnail.src = `/search/${index}/image/${hit.row}`;
    thumbnail.addEventListener("error", () => thumbnail.replaceWith(make("small", "", "image not found")));
    button.append(thumbnail);
    button.addEventListener("click", () => again(index, hit.row));
    const words = make("p");
    if (hit.label) words.append(breakable(make("b"), hit.label));
    words.append(hit.similarity.toFixed(3));
    item.append(button, words, breakable(make("p", "name"), hit.name));
    return item;
  }

  function verdict(one) {
    if (one.neighbors.length && one.found !== false) return make("p", "lead", one.verdict);
    const nothing = make("p", "nothing");
    nothing.append(make("b", "", "Nothing like it here"));
    nothing.append(one.neighbors.length ? `${one.verdict}. The nearest images, none of them a match:` : "No image meets the filters and the minimum similarity.");
    return nothing;
  }

  function show(found, preview) {
    const image = make("img");
    image.alt = "query";
    if (preview) image.src = preview;
    get("query").replaceChildren(...(preview ? [image] : []));
    out.replaceChildren(...found.answers.map((one) => {
      const column = make("section");
      column.append(make("h2", "", one.title), verdict(one));
      one.notes.forEach((note) => column.append(make("p", "under", note)));
      const list = make("ol", "hits");
      list.append(...one.neighbors.map((hit) => tile(hit, one.index)));
      column.append(list);
      return column;
    }));
    if (get("examples")) get("examples").remove();
  }

  async function search(query) {
    last = query;
    const number = ++newest;
    status.textContent = "Searching…";
    try {
      const body = query.file;
      const chosen = options();
      if (query.text) chosen.set("text", query.text);
      const answer = await fetch(`${query.url}?${chosen}`, body
        ? { method: "POST", body, headers: { "content-type": body.type || "application/octet-stream" } } : {});
      const found = await answer.json();
      if (number !== newest) return;
      status.textContent = answer.ok ? "" : found.error;
      if (answer.ok) show(found, query.preview);
    } catch {
      if (number === newest) status.textContent = "No answer from the server.";
    }
  }

  const again = (index, row) => search({ url: `/search/${index}/again/${row}`, preview: `/search/${index}/image/${row}` });
  const upload = (file) => { if (file) search({ file, url: "/search", preview: URL.createObjectURL(file) }); };
  input.addEventListener("change", () => upload(input.files[0]));
  get("search-words")?.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = get("search-text").value.trim();
    if (text) search({ text, url: "/search/words", preview: "" });
  });
  get("search-controls").addEventListener("submit", (event) => { event.preventDefault(); if (last) search(last); });
  get("search-controls").addEventListener("change", () => { if (last) search(last); });
  document.querySelectorAll("#examples button").forEach((button) => button.addEventListener("click", () => again(0, button.dataset.row)));
  box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    box.classList.remove("over");
    upload(event.dataTransfer.files[0]);
  });
  addEventListener("paste", (event) => upload(event.clipboardData.files[0]));
})();
