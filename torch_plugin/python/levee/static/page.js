// @ts-check
// Start of a single-file page: everything is in the document.

import { embeddedBundle } from "./data.js";
import { mountView } from "./view.js";

const index = JSON.parse(document.getElementById("levee-index")?.textContent || "null");
mountView(/** @type {HTMLElement} */ (document.getElementById("levee")), embeddedBundle(index));
