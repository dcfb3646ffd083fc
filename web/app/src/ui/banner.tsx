import { route } from '../router'
import { client, connection } from '../server'
import { explain, mayHelp } from './again'

/**
 * Says that the connection is lost, and what is done about it. Nothing while all is well, or for a moment only. It lies
 * over the page, which stays where it is. A terminal says it itself, where somebody types.
 */
export function Banner() {
  return <div class="banners" role="status" aria-live="polite">{content()}</div>
}

function content() {
  const c = connection.value
  if (c?.state === 'closed' && c.error.kind !== 'canceled') {
    return (
      <div class="banner bad">
        <span>The connection has ended. {explain(c.error)}</span>
        {mayHelp(c.error) && <button type="button" class="button quiet" onClick={() => location.reload()}>Load the page again</button>}
      </div>
    )
  }
  if ((c?.state === 'waiting' || c?.state === 'connecting') && c.tries > 1 && !(route.value.page === 'terminal' && !route.value.query.has('cast'))) {
    return (
      <div class="banner">
        <span>Reconnecting. What runs goes on, and its output will follow.</span>
        <button type="button" class="button quiet" onClick={() => client.value?.reconnect()}>Try now</button>
      </div>
    )
  }
  return null
}
