"use strict";
// One item at a time. Text from data is only ever set as textContent; addresses only as http(s) links and images.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const KEY = "crowdprism-answers-" + data.name;
  const LONGEST = 300; // seconds; a longer pause is no time spent on an item

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }
  function recall() {
    try { return JSON.parse(localStorage.getItem(KEY)) || []; } catch { return []; }
  }
  function keep() {
    try { localStorage.setItem(KEY, JSON.stringify(answers)); } catch { at("kept").textContent = "This browser keeps nothing for pages from disk: save the answers before you close the page."; }
  }
  const known = new Map(data.questions.map((question, place) => [question.cell, place]));
  // One entry per answer, in the order given: [cell of the item, class, seconds].
  const answers = recall().filter((entry) => Array.isArray(entry) && known.has(entry[0]) && data.classes[entry[1]] !== undefined);
  let skipped = [];
  let current = null;
  let begun = 0;

  function next() {
    const answered = new Set(answers.map((entry) => entry[0]));
    const open = data.questions.filter((question) => !answered.has(question.cell));
    const fresh = open.filter((question) => !skipped.includes(question.cell));
    if (!fresh.length) skipped = [];
    return fresh[0] || open[0] || null;
  }
  function timeLeft() {
    const spent = answers.map((entry) => entry[2]).sort((a, b) => a - b);
    if (spent.length < 3) return "";
    const minutes = (spent[Math.floor(spent.length / 2)] * (data.questions.length - answers.length)) / 60;
    return minutes < 1 ? " · less than a minute left" : ` · about ${Math.round(minutes)} min left`;
  }
  function content([column, kind, value]) {
    if (kind === "image") return make("figure", {}, make("figcaption", {}, column), make("img", { src: value, alt: column }));
    const text = make("div", {}, make("small", {}, column));
    text.append(kind === "link" && value.slice(0, 4).toLowerCase() === "http"
      ? make("a", { href: value, target: "_blank", rel: "noopener noreferrer" }, value)
      : make("p", {}, value));
    return text;
  }
  function show() {
    current = next();
    begun = Date.now();
    at("bar").value = answers.length;
    at("count").textContent = `${answers.length} of ${data.questions.length} answered` + (current ? timeLeft() : "");
    at("undo").disabled = !answers.length;
    at("skip").disabled = !current;
    at("question").hidden = !current;
    at("done").hidden = Boolean(current);
    if (current) {
      at("place").textContent = `Item ${known.get(current.cell) + 1} of ${data.questions.length}`;
      at("item").replaceChildren(make("bdi", {}, current.item));
      at("shown").replaceChildren(...current.shown.map(content));
      at("item").focus({ preventScroll: true });
      window.scrollTo(0, 0);
    } else {
      at("done").querySelector("h2").focus();
    }
  }
  function said(entry) {
    if (!entry) return "";
    const question = data.questions[known.get(entry[0])];
    const votes = question.votes.map(([code, n]) => `${data.classes[code]} ×${n}`).join(", ");
    return `Your last answer: ${data.classes[entry[1]]}.` + (votes ? ` Others said: ${votes}.` : "");
  }
  function answer(code) {
    if (!current || data.classes[code] === undefined) return;
    answers.push([current.cell, code, Math.min(LONGEST, Math.round((Date.now() - begun) / 100) / 10)]);
    keep();
    at("before").textContent = said(answers.at(-1));
    show();
  }
  function undo() {
    const last = answers.pop();
    if (!last) return;
    skipped = skipped.filter((cell) => cell !== last[0]);
    keep();
    at("before").textContent = "";
    show();
  }
  function skip() {
    if (!current) return;
    skipped.push(current.cell);
    at("before").textContent = "";
    show();
  }
  function save() {
    const quoted = (text) => '"' + String(text).replaceAll('"', '""') + '"';
    const header = ["item", "answer", "seconds", "audit", ...(data.marker ? [data.marker] : [])];
    const rows = answers.map(([cell, code, seconds]) => [cell, data.classCells[code], seconds, data.name, ...(data.marker ? [""] : [])]);
    const text = [header, ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n";
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "answers.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    at("kept").textContent = `Saved ${answers.length} answers as answers.csv.`;
  }

  const buttons = data.classes.map((name, code) => {
    const key = code < 10 ? String((code + 1) % 10) : "";
    const button = make("button", { type: "button", ...(key ? { "aria-keyshortcuts": key } : {}) }, ...(key ? [make("kbd", {}, key)] : []), make("bdi", {}, name));
    button.addEventListener("click", () => answer(code));
    return button;
  });
  at("choices").append(...buttons);
  if (data.classes.length > 10) {
    at("find-label").hidden = false;
    at("find").addEventListener("input", () => {
      const wanted = at("find").value.toLowerCase();
      data.classes.forEach((name, code) => { buttons[code].hidden = !name.toLowerCase().includes(wanted); });
    });
    at("find").addEventListener("keydown", (event) => {
      const first = buttons.findIndex((button) => !button.hidden);
      if (event.key !== "Enter" || first < 0) return;
      at("find").value = "";
      buttons.forEach((button) => { button.hidden = false; });
      answer(first);
    });
  }
  at("undo").addEventListener("click", undo);
  at("skip").addEventListener("click", skip);
  at("save").addEventListener("click", save);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === at("find")) return;
    const act = { u: undo, Backspace: undo, s: skip, d: save, "/": () => at("find").focus() }[event.key];
    if (act) { event.preventDefault(); act(); }
    else if (/^[0-9]$/.test(event.key)) answer((Number(event.key) + 9) % 10);
  });
  show();
})();
