// The unchanged @stomp/stompjs in Node: signs in, subscribes, gets a message, heart-beats, and leaves with a receipt.
// Usage: node stomp_client.mjs URL TOKEN. Writes one JSON object a line; what it sees is judged by the test.
import { Client } from "@stomp/stompjs";
import WebSocket from "ws";

Object.assign(globalThis, { WebSocket });

const [url, token] = process.argv.slice(2);
const say = (event, more = {}) => console.log(JSON.stringify({ event, ...more }));

const client = new Client({
  brokerURL: url,
  connectHeaders: { Authorization: `Bearer ${token}` },
  heartbeatIncoming: 300,
  heartbeatOutgoing: 300,
  reconnectDelay: 0,
  debug: (text) => {
    if (text === "<<< PONG" || text === ">>> PING") say("heart-beat", { text });
  },
  onStompError: (frame) => say("error", { message: frame.headers.message }),
  onWebSocketClose: (event) => say("closed", { code: event.code }),
  onDisconnect: () => say("disconnected"),
});

client.onConnect = (frame) => {
  say("connected", { version: frame.headers.version, subprotocol: client.webSocket.protocol });
  client.watchForReceipt("subscribed", () => say("subscribed"));
  client.subscribe(
    "/user/queue/notifications",
    (message) => {
      say("message", { headers: message.headers, body: message.body });
      // Long enough for heart-beats to go both ways.
      setTimeout(() => client.deactivate(), 1500);
    },
    { receipt: "subscribed" },
  );
};

client.activate();
