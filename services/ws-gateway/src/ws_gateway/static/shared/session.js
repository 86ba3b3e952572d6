/** The access token of this tab. It is kept until the tab is closed or the user signs out. */

const TOKEN = "tablebell.token";

export const session = {
  get token() {
    return sessionStorage.getItem(TOKEN);
  },
  start(token) {
    sessionStorage.setItem(TOKEN, token);
  },
  end() {
    sessionStorage.removeItem(TOKEN);
  },
  /**
   * Take the token from `#token=…` and keep it out of the history and of screenshots. A link never replaces a session:
   * whoever sent it could make the user act as somebody else.
   */
  takeFromAddress() {
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (!token) return;
    if (!this.token) this.start(token);
    history.replaceState(null, "", location.pathname + location.search);
  },
};
