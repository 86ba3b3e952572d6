/** Two short notes for a new request. The choice is kept in this browser. */

const CHOICE = "tablebell.sound";
let context = null;

export const sound = {
  get isOn() {
    return localStorage.getItem(CHOICE) !== "off";
  },
  set isOn(on) {
    localStorage.setItem(CHOICE, on ? "on" : "off");
  },
  played: 0,
  play() {
    if (!this.isOn) return;
    this.played += 1;
    context ??= new AudioContext();
    // A browser starts no sound before the first click on the page.
    if (context.state === "suspended") context.resume().catch(() => {});
    for (const [index, frequency] of [880, 1174].entries()) {
      const start = context.currentTime + index * 0.16;
      const note = context.createOscillator();
      const volume = context.createGain();
      note.frequency.value = frequency;
      volume.gain.setValueAtTime(0.0001, start);
      volume.gain.exponentialRampToValueAtTime(0.2, start + 0.02);
      volume.gain.exponentialRampToValueAtTime(0.0001, start + 0.3);
      note.connect(volume).connect(context.destination);
      note.start(start);
      note.stop(start + 0.32);
    }
  },
};
