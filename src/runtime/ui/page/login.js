// Who looks: on the controller's own machine nobody is asked; elsewhere a token says it, which a browser keeps where no
// script can read it.

import { $, hush, onRefused } from "./common.js";

const RETRY = 5_000;

// `begin` is called when somebody may look.
export function follow(begin) {
  onRefused.call = (status, why) => (status === 401 ? ask(why) : forbid(why));
  $("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const token = $("token").value.trim();
    $("login-problem").textContent = "";
    const answer = await post("/ui/login", { token });
    if (!answer.ok) return ($("login-problem").textContent = answer.text ? await answer.text() : String(answer));
    $("token").value = "";
    const isKept = (await fetch("/ui/viewer")).ok;
    if (!isKept) return ($("login-problem").textContent = "Your browser did not keep the token: it does so over HTTPS alone.");
    come(begin);
  });
  $("logout").addEventListener("click", async () => {
    await post("/ui/logout", {});
    hush();
    ask("");
  });
  come(begin);
}

async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(body) }).catch((error) => error);
}

async function come(begin) {
  const answer = await fetch("/ui/viewer").catch(() => null);
  if (answer?.status === 401) return ask("");
  if (!answer?.ok) {
    $("connection").textContent = answer ? await answer.text() : "the controller does not answer; trying again";
    setTimeout(() => come(begin), RETRY);
    return;
  }
  const { user } = await answer.json();
  $("login").hidden = true;
  $("who").hidden = user == null;
  $("user").textContent = user ?? "";
  $("content").hidden = false;
  begin();
}

function ask(why) {
  for (const id of ["content", "who"]) $(id).hidden = true;
  $("connection").textContent = "";
  $("login-problem").textContent = why;
  $("login").hidden = false;
  $("token").focus();
}

function forbid(why) {
  $("connection").textContent = why;
}
