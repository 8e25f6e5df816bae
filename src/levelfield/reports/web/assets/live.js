"use strict";
// Script of the live pages, in addition to page.js: update parts of the page.
(() => {
  const { enhance, filterAll, moveChart } = window.levelfield;
  const INTERVAL_MS = 1500; // between two requests

  // Save the user's state of a part of the page: checked boxes, sort order, charts, focus, scroll position.
  // Returns a function that restores it in the new version of the part.
  function saveState(part) {
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
      all("figure.plot").forEach((figure, number) => { if (figures[number]) moveChart(figures[number], figure); });
      all("[role=region]").forEach((region) => { region.scrollLeft = scrolled.get(name(region)) || 0; });
      const again = focused && all("a, button, input, summary, [tabindex]").find((element) => name(element) === focused);
      if (again) again.focus({ preventScroll: true });
    };
  }

  // <div data-live="/address"> is a part of the page that is fetched again; its first child has its version.
  function keepUpdated(part) {
    let version = part.dataset.version;
    async function poll() {
      if (!document.hidden) {
        try {
          const answer = await fetch(`${part.dataset.live}?since=${encodeURIComponent(version)}`);
          if (answer.status === 200) {
            const text = await answer.text();
            const fresh = new DOMParser().parseFromString(text, "text/html");
            const restore = saveState(part);
            part.replaceChildren(...fresh.body.childNodes);
            version = answer.headers.get("x-version") || part.querySelector("[data-version]").dataset.version;
            enhance(part);
            restore();
            filterAll();
          }
          part.removeAttribute("data-lost");
        } catch {
          part.setAttribute("data-lost", "no answer from the server; retrying");
        }
      }
      setTimeout(poll, INTERVAL_MS);
    }
    setTimeout(poll, INTERVAL_MS);
  }

  document.querySelectorAll("[data-live]").forEach(keepUpdated);
})();
