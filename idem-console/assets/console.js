// Renews the overview while it is open. Without this file the page is read as it is.
"use strict";
(() => {
  const live = document.getElementById("live");
  const status = document.getElementById("live-status");
  if (!live || !status || !window.EventSource) return;

  const renew = (html) => {
    const selection = window.getSelection();
    // Who is about to copy a text keeps it.
    if (selection && !selection.isCollapsed && live.contains(selection.anchorNode)) return;
    const focused = live.contains(document.activeElement) ? document.activeElement : null;
    const name = focused && (focused.value || focused.getAttribute("href"));
    const page = new DOMParser().parseFromString(html, "text/html");
    live.replaceChildren(...page.body.childNodes);
    if (!name) return;
    const again = [...live.querySelectorAll("button, a")];
    const match = again.find((one) => (one.value || one.getAttribute("href")) === name);
    if (match) match.focus({ preventScroll: true });
  };

  const connect = () => {
    const source = new EventSource(live.dataset.events);
    source.addEventListener("overview", (event) => {
      const { html, at } = JSON.parse(event.data);
      renew(html);
      status.textContent = `Live, as of ${at}`;
      status.classList.add("on");
    });
    source.addEventListener("over", () => {
      source.close();
      status.textContent = "Your session is over: load the page again";
      status.classList.remove("on");
    });
    source.onerror = () => {
      status.textContent = "Not live: the console does not answer";
      status.classList.remove("on");
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 10000);
    };
  };
  connect();
})();
