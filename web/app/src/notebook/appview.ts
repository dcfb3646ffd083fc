import { computed } from '@preact/signals'
import { navigate, route } from '../router'

/**
 * The page shows text and output, without the code. It is part of the address, so that it can be
 * shared.
 */
export const appView = computed(() => route.value.page === 'notebook' && route.value.query.get('view') === 'app')

/** Returns the query of a notebook's address. */
export function queryOf(path: string, app = false): string {
  const query = [...(path === 'notebook.ipynb' ? [] : [`file=${encodeURIComponent(path)}`]), ...(app ? ['view=app'] : [])]
  return query.length ? `?${query.join('&')}` : ''
}

export function toggleAppView(path: string): void {
  navigate(location.pathname + queryOf(path, !appView.peek()), { replace: true })
}
