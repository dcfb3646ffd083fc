// The service worker. With it, the application starts without the server too, and can then show the
// notebooks that the browser keeps. It stores only files of the application, which need no
// credentials. Requests of the API, of outputs and of ports never pass through it.
'use strict'
/* global clients, skipWaiting */

/** The files that are stored at once, and those that are stored when they are used. */
const first = ['FIRST']
const others = new Set(['OTHERS'])
const prefix = 'sandgate-'
const name = `${prefix}VERSION`

addEventListener('install', (e) => e.waitUntil((async () => {
  await (await caches.open(name)).addAll(['/', ...first])
  await skipWaiting()
})()))

addEventListener('activate', (e) => e.waitUntil((async () => {
  for (const old of await caches.keys()) if (old.startsWith(prefix) && old !== name) await caches.delete(old)
  await self.registration.navigationPreload?.enable()
  await clients.claim()
})()))

addEventListener('fetch', (e) => {
  const { request } = e
  const { origin, pathname } = new URL(request.url)
  if (request.method !== 'GET' || origin !== location.origin) return
  if (request.mode === 'navigate') {
    if (/^\/$|^\/(s|console)(\/|$)/.test(pathname)) e.respondWith(page(e))
  } else if (first.includes(pathname) || others.has(pathname)) e.respondWith(file(request))
})

/** The server's page, or the stored one if the server cannot be reached. */
async function page(e) {
  try {
    return (await e.preloadResponse) ?? await fetch(e.request)
  } catch (error) {
    const stored = await (await caches.open(name)).match('/')
    if (stored) return stored
    throw error
  }
}

/** The name of a file has the hash of its content, so the stored one is right. */
async function file(request) {
  const cache = await caches.open(name)
  const stored = await cache.match(request)
  if (stored) return stored
  const answer = await fetch(request)
  if (answer.ok) await cache.put(request, answer.clone()).catch(() => {}) // there may be no space
  return answer
}
