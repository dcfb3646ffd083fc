// Resolves all names below sbx.test to this machine, for the checks in domain mode.
const dns = require('node:dns')

const lookup = dns.lookup
dns.lookup = function (host, options, callback) {
  if (typeof options === 'function') {
    callback = options
    options = {}
  }
  if (!host.endsWith('.sbx.test')) {
    return lookup.call(dns, host, options, callback)
  }
  const all = typeof options === 'object' && options.all
  process.nextTick(() => all
    ? callback(null, [{ address: '127.0.0.1', family: 4 }])
    : callback(null, '127.0.0.1', 4))
}
