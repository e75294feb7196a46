// @ts-check
// Start of the TensorBoard tab: a choice of runs, and the view of the chosen one. Everything comes from the plugin's own routes.

import { Bundle } from "./data.js";
import { make } from "./tables.js";
import { mountView } from "./view.js";

async function get(url) {
  const reply = await fetch(url);
  if (!reply.ok) throw new Error((await reply.text()) || `${reply.status}`);
  return reply;
}

function message(root, text) {
  root.className = "lv-view";
  root.dataset.state = "failed";
  root.replaceChildren(make("p", { class: "lv-remark" }, text));
}

async function showRun(root, run) {
  root.dataset.run = run;
  root.dataset.state = "loading";
  const query = `run=${encodeURIComponent(run)}`;
  try {
    const index = await (await get(`./view?${query}`)).json();
    const bundle = new Bundle(index, async (offset, length) =>
      new Uint8Array(await (await get(`./chunk?${query}&offset=${offset}&length=${length}`)).arrayBuffer()));
    // "." is the log folder itself: its recording says its own name.
    mountView(root, bundle, run === "." ? {} : { title: run });
  } catch (error) {
    message(root, `The run ${run} cannot be shown: ${/** @type {Error} */ (error).message}`);
  }
}

export async function render() {
  const link = make("link", { rel: "stylesheet", href: "./levee.css" });
  document.head.append(link);
  await new Promise((done) => {
    link.onload = done;
    link.onerror = done;
  });
  const page = make("div", { class: "lv-page" });
  const bar = make("div", { class: "lv-runs" });
  const root = make("main", { id: "levee" });
  page.append(bar, root);
  document.body.append(page);
  let runs;
  try {
    runs = (await (await get("./runs")).json()).runs;
  } catch (error) {
    return message(root, `The list of runs cannot be read: ${/** @type {Error} */ (error).message}`);
  }
  if (!runs.length) {
    return message(root, "There is no recording of levee in the log folder. Copy a .levee file there, or write one with: levee export FILE --to tensorboard -o FOLDER");
  }
  const chooser = /** @type {HTMLSelectElement} */ (make("select", { "aria-label": "Run" },
    ...runs.map((run) => make("option", { value: run }, run))));
  bar.append(make("span", {}, "Run"), chooser);
  chooser.addEventListener("change", () => showRun(root, chooser.value));
  await showRun(root, runs[0]);
}
