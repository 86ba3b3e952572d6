/** What a notification says about its reservation: times, urgency, order. Pure. */

const HOUR = 3_600_000;
const MINUTE = 60_000;

export const isOpen = (item) => item.actions.length > 0 && !item.hidden;

/** The time of the table as it is now known: a proposed time replaces the requested one. */
export function tableTime({ properties, resolution }) {
  return resolution?.outcome?.proposedTime ?? resolution?.outcome?.slotTime ?? properties.slotTime;
}

export const askedAt = ({ properties, createdAt }) => Date.parse(properties.occurredAt ?? createdAt);

export const hasPassed = (item, now) => Date.parse(item.properties.slotTime) <= now;

/** A request for tonight should be answered within minutes, one for next week within hours. */
export function hasWaitedTooLong(item, now) {
  const left = Date.parse(item.properties.slotTime) - now;
  const patience = left < 4 * HOUR ? 10 * MINUTE : left < 24 * HOUR ? 30 * MINUTE : 4 * HOUR;
  return now - askedAt(item) > patience;
}

/** By the time of the visit. A table whose time has passed comes last: nobody can accept it. */
export function byVisit(now) {
  const rank = (item) => [hasPassed(item, now) ? 1 : 0, Date.parse(item.properties.slotTime) || 0, item.id];
  return (one, other) => {
    const [a, b] = [rank(one), rank(other)];
    const index = a.findIndex((value, place) => value !== b[place]);
    return index < 0 ? 0 : a[index] - b[index];
  };
}
