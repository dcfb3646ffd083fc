import { client, connection } from '../server'

/** Says that the connection is lost, and what is done about it. Nothing while all is well, or for a moment only. */
export function Banner() {
  const c = connection.value
  if (c?.state === 'closed' && c.error.kind !== 'canceled') {
    return <div class="banner bad" role="alert">The server ended the connection: {c.error.message}</div>
  }
  if ((c?.state === 'waiting' || c?.state === 'connecting') && c.tries > 1) {
    return (
      <div class="banner" role="status">
        <span>Reconnecting. What runs goes on, and its output will follow.</span>
        <button type="button" class="button quiet" onClick={() => client.value?.reconnect()}>Try now</button>
      </div>
    )
  }
  return null
}
