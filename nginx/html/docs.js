// The HTTP interface as a page, from openapi.json.
import { element, read, say, unreachable } from "/page.js";

const kMethods = ["get", "post", "put", "delete"];
const list = document.getElementById("operations");

let components = {};

function resolved(value) {
  return value?.$ref ? value.$ref.split("/").slice(3).reduce((at, name) => at[name], components[value.$ref.split("/")[2]]) : value;
}

// "string, 1 to 100", "topic | reply", "[Card]".
function typeOf(given) {
  if (!given) return "";
  if (given.$ref) {
    const schema = resolved(given);
    return schema.type === "object" ? given.$ref.split("/").pop() : typeOf(schema) || given.$ref.split("/").pop();
  }
  if ("const" in given) return JSON.stringify(given.const);
  if (given.enum) return given.enum.filter((each) => each !== null).join(" | ");
  const many = given.oneOf || given.anyOf;
  if (many) return many.map(typeOf).join(" or ");
  if (given.type === "array") return `[${typeOf(given.items)}]`;
  const type = [given.type || []].flat().filter((each) => each !== "null").join(" or ");
  const range = "minimum" in given && given.maximum <= Number.MAX_SAFE_INTEGER ? `, ${given.minimum} to ${given.maximum}` : "";
  return type + range;
}

function describe(given) {
  const schema = resolved(given) || {};
  const fallback = "default" in schema ? `default ${JSON.stringify(schema.default)}` : "";
  return [given.description || schema.description, fallback].filter(Boolean).map((each) => each.replace(/\.$/, "")).join("; ");
}

function table(caption, rows) {
  const made = element("table");
  made.append(element("caption", caption));
  for (const [name, type, text] of rows) {
    const row = element("tr");
    const head = element("th");
    head.scope = "row";
    head.append(element("code", name));
    row.append(head, element("td", type), element("td", text, "wrap"));
    made.append(row);
  }
  const box = element("div", "", "scroll");
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", caption);
  box.append(made);
  return box;
}

function members(schema) {
  const needed = new Set(schema.required || []);
  return Object.entries(schema.properties || {}).map(([name, each]) => [name + (needed.has(name) ? "" : "?"), typeOf(each), describe(each)]);
}

function schemaTable(caption, content) {
  const [type, { schema }] = Object.entries(content)[0];
  let whole = resolved(schema);
  let title = `${caption}: ${type}`;
  if (whole?.type === "array") {
    whole = resolved(whole.items);
    title += ", each";
  }
  return whole?.properties ? table(title, members(whole)) : element("p", `${title} ${typeOf(schema)}`, "hint");
}

// The request as a line of shell, and what came of it: the examples of parameters, body and reply.
function example(method, path, operation, parameters, body) {
  const given = (where) => parameters.filter((each) => each.in === where && "example" in each);
  const target = given("path").reduce((at, each) => at.replace(`{${each.name}}`, encodeURIComponent(each.example)), path);
  const query = given("query").map((each) => each.name + (each.example === "" ? "" : "=" + encodeURIComponent(each.example))).join("&");
  let command = `curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}'${location.origin}${target}${query && "?" + query}'`;
  for (const [type, content] of Object.entries(body?.content || {})) {
    if (!("example" in content)) continue;
    const text = typeof content.example === "string" ? content.example : JSON.stringify(content.example);
    command += type === "application/json" ? ` --json '${text}'` : ` -H 'Content-Type: ${type}' --data-binary '${text}'`;
  }
  const reply = Object.entries(operation.responses).find(([status]) => status[0] === "2");
  const said = Object.values(resolved(reply[1]).content || {}).find((content) => "example" in content)?.example;
  const shown = said === undefined ? `${reply[0]} ${resolved(reply[1]).description}` : typeof said === "string" ? said : JSON.stringify(said, null, 2);
  const box = element("pre", `${command}\n\n${shown}`);
  box.tabIndex = 0;
  return box;
}

function section(method, path, operation) {
  const made = element("details");
  made.id = operation.operationId;
  const head = element("summary");
  head.append(element("code", `${method.toUpperCase()} ${path}`), ` ${operation.summary} `, element("span", operation["x-freshet-zone"], "zone"));
  made.append(head);
  if (operation.description) made.append(element("p", operation.description));
  const parameters = (operation.parameters || []).map(resolved);
  if (parameters.length) {
    made.append(table("Parameters", parameters.map((each) =>
      [each.name + (each.required ? "" : "?"), typeOf(each.schema), [each.description, describe(each.schema)].filter(Boolean).join("; ")])));
  }
  const body = resolved(operation.requestBody);
  made.append(example(method, path, operation, parameters, body));
  if (body) made.append(schemaTable("Body", body.content));
  const replies = [];
  for (const [status, given] of Object.entries(operation.responses)) {
    const reply = resolved(given);
    if (status[0] === "2" && reply.content) made.append(schemaTable(`${status} ${reply.description}`, reply.content));
    else replies.push([status, "", reply.description]);
  }
  if (replies.length) made.append(table("Other replies", replies));
  made.dataset.text = made.textContent.toLowerCase();
  return made;
}

async function show() {
  const document_ = await read(await fetch("/openapi.json").catch(unreachable));
  components = document_.components;
  document.getElementById("about").textContent = document_.info.description;
  for (const { name } of document_.tags) {
    const group = element("section");
    group.append(element("h2", name));
    for (const [path, item] of Object.entries(document_.paths)) {
      for (const method of kMethods) if (item[method]?.tags.includes(name)) group.append(section(method, path, item[method]));
    }
    list.append(group);
  }
  say("");
  const asked = document.getElementById(location.hash.slice(1));
  if (asked) {
    asked.open = true;
    asked.scrollIntoView();
  }
}

const filter = document.getElementById("filter");
filter.form.addEventListener("submit", (event) => event.preventDefault());
filter.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  const all = [...list.querySelectorAll("details")];
  for (const each of all) each.hidden = !each.dataset.text.includes(wanted);
  for (const group of list.children) group.hidden = !group.querySelector("details:not([hidden])");
  say(wanted ? `${all.filter((each) => !each.hidden).length} routes.` : "");
});

show().catch((error) => say(`Not loaded: ${error.message}.`));
