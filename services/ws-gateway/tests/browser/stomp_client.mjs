// The unchanged @stomp/stompjs in Node: it connects, subscribes, receives a message, exchanges heart-beats and
// disconnects with a receipt.
// Usage: node stomp_client.mjs URL TOKEN. Writes one JSON object per event. The test checks them.
import { Client } from "@stomp/stompjs";
import WebSocket from "ws";

Object.assign(globalThis, { WebSocket });

const [url, token] = process.argv.slice(2);
const report = (event, more = {}) => console.log(JSON.stringify({ event, ...more }));

const client = new Client({
  brokerURL: url,
  connectHeaders: { Authorization: `Bearer ${token}` },
  heartbeatIncoming: 300,
  heartbeatOutgoing: 300,
  reconnectDelay: 0,
  debug: (text) => {
    if (text === "<<< PONG" || text === ">>> PING") report("heart-beat", { text });
  },
  onStompError: (frame) => report("error", { message: frame.headers.message }),
  onWebSocketClose: (event) => report("closed", { code: event.code }),
  onDisconnect: () => report("disconnected"),
});

client.onConnect = (frame) => {
  report("connected", { version: frame.headers.version, subprotocol: client.webSocket.protocol });
  client.watchForReceipt("subscribed", () => report("subscribed"));
  client.subscribe(
    "/user/queue/notifications",
    (message) => {
      report("message", { headers: message.headers, body: message.body });
      // Wait for heart-beats in both directions.
      setTimeout(() => client.deactivate(), 1500);
    },
    { receipt: "subscribed" },
  );
};

client.activate();
