// Renders openapi.json as a page.
import { element, plural, readJson, showStatus, throwUnreachable } from "/page.js";

const kMethods = ["get", "post", "put", "delete"];
const list = document.getElementById("operations");

let components = {};

function resolve(value) {
  return value?.$ref ? value.$ref.split("/").slice(3).reduce((node, name) => node[name], components[value.$ref.split("/")[2]]) : value;
}

// "integer, 1 to 100", "topic | reply", "[HotItem]".
function typeText(schema) {
  if (!schema) return "";
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    const target = resolve(schema);
    return target.type === "object" ? name : typeText(target) || name;
  }
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.filter((each) => each !== null).join(" | ");
  const alternatives = schema.oneOf || schema.anyOf;
  if (alternatives) return alternatives.map(typeText).join(" or ");
  if (schema.type === "array") return `[${typeText(schema.items)}]`;
  const type = [schema.type || []].flat().filter((each) => each !== "null").join(" or ");
  const range = "minimum" in schema && schema.maximum <= Number.MAX_SAFE_INTEGER ? `, ${schema.minimum} to ${schema.maximum}` : "";
  return type + range;
}

function describe(node) {
  const schema = resolve(node) || {};
  const fallback = "default" in schema ? `default ${JSON.stringify(schema.default)}` : "";
  return [node.description || schema.description, fallback].filter(Boolean).map((each) => each.replace(/\.$/, "")).join("; ");
}

function makeTable(caption, rows) {
  const table = element("table");
  table.append(element("caption", caption));
  for (const [name, type, text] of rows) {
    const row = element("tr");
    const head = element("th");
    head.scope = "row";
    head.append(element("code", name));
    row.append(head, element("td", type), element("td", text, "wrap"));
    table.append(row);
  }
  const box = element("div", "", "scroll");
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", caption);
  box.append(table);
  return box;
}

function memberRows(schema) {
  const required = new Set(schema.required || []);
  return Object.entries(schema.properties || {}).map(([name, each]) => [name + (required.has(name) ? "" : "?"), typeText(each), describe(each)]);
}

function schemaTable(caption, content) {
  const [type, { schema }] = Object.entries(content)[0];
  let members = resolve(schema);
  let title = `${caption}: ${type}`;
  if (members?.type === "array") {
    members = resolve(members.items);
    title += ", each element";
  }
  return members?.properties ? makeTable(title, memberRows(members)) : element("p", `${title} ${typeText(schema)}`, "hint");
}

// The examples of parameters and body as a curl command, followed by the example response.
function example(method, path, operation, parameters, body) {
  const examples = (location) => parameters.filter((each) => each.in === location && "example" in each);
  const target = examples("path").reduce((filled, each) => filled.replace(`{${each.name}}`, encodeURIComponent(each.example)), path);
  const query = examples("query").map((each) => each.name + (each.example === "" ? "" : "=" + encodeURIComponent(each.example))).join("&");
  let command = `curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}'${location.origin}${target}${query && "?" + query}'`;
  for (const [type, content] of Object.entries(body?.content || {})) {
    if (!("example" in content)) continue;
    const text = typeof content.example === "string" ? content.example : JSON.stringify(content.example);
    command += type === "application/json" ? ` --json '${text}'` : ` -H 'Content-Type: ${type}' --data-binary '${text}'`;
  }
  const reply = Object.entries(operation.responses).find(([status]) => status[0] === "2");
  const answer = Object.values(resolve(reply[1]).content || {}).find((content) => "example" in content)?.example;
  const text = answer === undefined ? `${reply[0]} ${resolve(reply[1]).description}` : typeof answer === "string" ? answer : JSON.stringify(answer, null, 2);
  const box = element("pre", `${command}\n\n${text}`);
  box.tabIndex = 0;
  return box;
}

function section(method, path, operation) {
  const details = element("details");
  details.id = operation.operationId;
  const head = element("summary");
  head.append(element("code", `${method.toUpperCase()} ${path}`), ` ${operation.summary} `, element("span", operation["x-freshet-zone"], "zone"));
  details.append(head);
  if (operation.description) details.append(element("p", operation.description));
  const parameters = (operation.parameters || []).map(resolve);
  if (parameters.length) {
    details.append(makeTable("Parameters", parameters.map((each) =>
      [each.name + (each.required ? "" : "?"), typeText(each.schema), [each.description, describe(each.schema)].filter(Boolean).join("; ")])));
  }
  const body = resolve(operation.requestBody);
  details.append(example(method, path, operation, parameters, body));
  if (body) details.append(schemaTable("Request body", body.content));
  const otherReplies = [];
  for (const [status, each] of Object.entries(operation.responses)) {
    const reply = resolve(each);
    if (status[0] === "2" && reply.content) details.append(schemaTable(`${status} ${reply.description}`, reply.content));
    else otherReplies.push([status, "", reply.description]);
  }
  if (otherReplies.length) details.append(makeTable("Other responses", otherReplies));
  details.dataset.text = details.textContent.toLowerCase();
  return details;
}

async function show() {
  const api = await readJson(await fetch("/openapi.json").catch(throwUnreachable));
  components = api.components;
  document.getElementById("about").textContent = api.info.description;
  for (const { name } of api.tags) {
    const group = element("section");
    group.append(element("h2", name));
    for (const [path, item] of Object.entries(api.paths)) {
      for (const method of kMethods) if (item[method]?.tags.includes(name)) group.append(section(method, path, item[method]));
    }
    list.append(group);
  }
  showStatus("");
  const target = document.getElementById(location.hash.slice(1));
  if (target) {
    target.open = true;
    target.scrollIntoView();
  }
}

const filter = document.getElementById("filter");
filter.form.addEventListener("submit", (event) => event.preventDefault());
filter.addEventListener("input", () => {
  const text = filter.value.trim().toLowerCase();
  const all = [...list.querySelectorAll("details")];
  for (const each of all) each.hidden = !each.dataset.text.includes(text);
  for (const group of list.children) group.hidden = !group.querySelector("details:not([hidden])");
  showStatus(text ? `${plural(all.filter((each) => !each.hidden).length, "route")} found.` : "");
});

show().catch((error) => showStatus(`We couldn’t load the API description: ${error.message}.`));
