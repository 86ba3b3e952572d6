"use strict";

// The server renders and escapes. This script polls once a second for new cards.
const MAX_CARDS = 200;
const page = document.body.dataset;
const cards = document.getElementById("cards");

document.getElementById("clear").addEventListener("click", async () => {
  await fetch("/api/messages", { method: "DELETE" });
  location.assign("/");
});

function showCounts(counts) {
  for (const link of document.querySelectorAll("nav a[data-channel]")) {
    const { accepted, refused } = counts[link.dataset.channel];
    link.querySelector("b").textContent = accepted;
    link.querySelector("small").textContent = refused ? `${refused} refused` : "";
  }
}

function dropOldCards(oldest) {
  for (const card of [...cards.children].reverse()) {
    if (cards.children.length <= MAX_CARDS && Number(card.dataset.sequence) >= oldest) break;
    card.remove();
  }
}

async function update() {
  const query = new URLSearchParams({ since: page.last });
  if (page.channel) query.set("channel", page.channel);
  const news = await (await fetch(`/updates?${query}`)).json();
  // The sandbox was restarted: its sequence numbers start again from one.
  if (news.last < Number(page.last)) location.reload();
  cards.insertAdjacentHTML("afterbegin", news.cards);
  dropOldCards(news.oldest);
  showCounts(news.counts);
  document.getElementById("faults").innerHTML = news.faults;
  page.last = news.last;
}

async function keepUpdating() {
  if (!document.hidden) await update().catch(() => {});
  setTimeout(keepUpdating, 1000);
}

if (cards) keepUpdating();
