import { t } from '../language/texts'
import { route } from '../router'
import { client, connection, offline, refused } from '../server'
import { explain, mayHelp } from './again'

/**
 * Reports that the connection is lost, and the next steps. It shows nothing while the connection
 * works, or during a short loss. It lies over the page, which does not move. A terminal shows the
 * loss itself while the user types.
 */
export function Banner() {
  return <div class="banners" role="status" aria-live="polite">{content()}</div>
}

function content() {
  const c = connection.value
  if (c?.state === 'closed' && c.error.kind !== 'canceled') {
    return (
      <div class="banner bad">
        <span>{t('The connection has ended.')} {explain(c.error)}</span>
        {mayHelp(c.error) && <button type="button" class="button quiet" onClick={() => location.reload()}>{t('Reload the page')}</button>}
      </div>
    )
  }
  if (refused.value) return null // the page itself says so
  if (offline.value) {
    return <div class="banner"><span>{t('You are offline. Your code keeps running, and its output will follow.')}</span></div>
  }
  if ((c?.state === 'waiting' || c?.state === 'connecting') && c.tries > 1 && !(route.value.page === 'terminal' && !route.value.query.has('cast'))) {
    return (
      <div class="banner">
        <span>{t('Reconnecting. Your code keeps running, and its output will follow.')}</span>
        <button type="button" class="button quiet" onClick={() => client.value?.reconnect()}>{t('Try now')}</button>
      </div>
    )
  }
  return null
}
