// The login. On the controller's own machine none is needed; elsewhere a token is, and the browser keeps it out of reach of
// scripts.

import { $ } from "./common.js";
import { close, onRefused, showConnection } from "./listen.js";

const RETRY = 5_000;

// `begin` is called when the viewer is known, `forbid` with a status and a reason when the viewer lacks a right.
export function start({ begin, forbid }) {
  onRefused.call = (status, why) => {
    showConnection("lost", "");
    if (status === 401) ask(why);
    else forbid(status, why);
  };
  $("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const token = $("token").value.trim();
    $("login-problem").textContent = "";
    const answer = await post("/ui/login", { token });
    if (!answer.ok) return ($("login-problem").textContent = answer.text ? await answer.text() : String(answer));
    $("token").value = "";
    const isKept = (await fetch("/ui/viewer")).ok;
    if (!isKept) return ($("login-problem").textContent = "Your browser did not keep the token: it does so over HTTPS only.");
    enter(begin);
  });
  $("logout").addEventListener("click", async () => {
    await post("/ui/logout", {});
    close();
    ask("");
  });
  enter(begin);
}

async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(body) }).catch((error) => error);
}

async function enter(begin) {
  const answer = await fetch("/ui/viewer").catch(() => null);
  if (answer?.status === 401) return ask("");
  if (!answer?.ok) {
    showConnection("lost", answer ? await answer.text() : "no answer from the controller; retrying");
    setTimeout(() => enter(begin), RETRY);
    return;
  }
  const { user } = await answer.json();
  $("login").hidden = true;
  $("who").hidden = user == null;
  $("user").textContent = user ?? "";
  for (const id of ["content", "views"]) $(id).hidden = false;
  begin();
}

function ask(why) {
  for (const id of ["content", "who", "views"]) $(id).hidden = true;
  showConnection("lost", "");
  for (const id of ["totals", "cluster"]) $(id).textContent = "";
  $("login-problem").textContent = why;
  $("login").hidden = false;
  $("token").focus();
}
