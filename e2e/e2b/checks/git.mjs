// The SDK's git module, which runs git as commands.
import { assert, e2b, fails, suite } from './kit.mjs'

const check = suite('git')
const author = { authorName: 'Ann', authorEmail: 'ann@example.com' }

// repository creates a repository with one commit, on the branch main.
async function repository(t, name = 'repo') {
  const s = await t.shared()
  const path = t.path(name)
  await s.git.init(path, { initialBranch: 'main' })
  await s.files.write(`${path}/a.txt`, 'one\n')
  await s.git.add(path)
  await s.git.commit(path, 'first', author)
  return { s, path, git: s.git }
}

check('init', ['Git#init(bare, initialBranch)'], async (t) => {
  const s = await t.shared()
  await s.git.init(t.path('plain'), { initialBranch: 'trunk' })
  assert.equal((await s.git.status(t.path('plain'))).currentBranch, 'trunk')
  await s.git.init(t.path('bare'), { bare: true })
  assert.equal(await s.files.exists(t.path('bare/HEAD')), true)
})

check('status', ['Git#status'], async (t) => {
  const { s, path, git } = await repository(t)
  assert.equal((await git.status(path)).isClean, true)
  await s.files.write(`${path}/a.txt`, 'two\n')
  await s.files.write(`${path}/new.txt`, 'x')
  const status = await git.status(path)
  assert.equal(status.isClean, false)
  assert.equal(status.hasUntracked, true)
  assert.deepEqual(status.fileStatus.map((f) => [f.name, f.status]).toSorted(),
    [['a.txt', 'modified'], ['new.txt', 'untracked']])
})

check('add', ['Git#add(files, all)'], async (t) => {
  const { s, path, git } = await repository(t)
  await s.files.write(`${path}/b`, '1')
  await s.files.write(`${path}/c`, '1')
  await git.add(path, { files: ['b'] })
  assert.equal((await git.status(path)).stagedCount, 1)
  await git.add(path, { all: true })
  assert.equal((await git.status(path)).stagedCount, 2)
})

check('commit', ['Git#commit(authorName, authorEmail, allowEmpty)'], async (t) => {
  const { s, path, git } = await repository(t)
  await git.commit(path, 'empty "one"', { ...author, allowEmpty: true })
  const { stdout } = await s.commands.run('git log -1 --format="%s|%an|%ae"', { cwd: path })
  assert.equal(stdout, 'empty "one"|Ann|ann@example.com\n')
})

check('branches', ['Git#branches', 'Git#createBranch', 'Git#checkoutBranch', 'Git#deleteBranch'],
  async (t) => {
    const { path, git } = await repository(t)
    await git.createBranch(path, 'feature')
    assert.equal((await git.branches(path)).currentBranch, 'feature')
    await git.checkoutBranch(path, 'main')
    assert.deepEqual((await git.branches(path)).branches.toSorted(), ['feature', 'main'])
    await git.deleteBranch(path, 'feature', { force: true })
    assert.deepEqual((await git.branches(path)).branches, ['main'])
  })

check('reset', ['Git#reset(mode, target, paths)'], async (t) => {
  const { s, path, git } = await repository(t)
  await s.files.write(`${path}/a.txt`, 'changed')
  await git.add(path)
  await git.reset(path, { paths: ['a.txt'] })
  assert.equal((await git.status(path)).hasStaged, false)
  await git.reset(path, { mode: 'hard', target: 'HEAD' })
  assert.equal(await s.files.read(`${path}/a.txt`), 'one\n')
})

check('restore', ['Git#restore(paths, staged, worktree)'], async (t) => {
  const { s, path, git } = await repository(t)
  await s.files.write(`${path}/a.txt`, 'changed')
  await git.add(path)
  await git.restore(path, { paths: ['a.txt'], staged: true, worktree: true })
  assert.equal((await git.status(path)).isClean, true)
  assert.equal(await s.files.read(`${path}/a.txt`), 'one\n')
})

check('remotes', ['Git#remoteAdd(overwrite)', 'Git#remoteGet'], async (t) => {
  const { path, git } = await repository(t)
  assert.equal(await git.remoteGet(path, 'origin'), undefined)
  await git.remoteAdd(path, 'origin', 'https://example.com/a.git')
  await git.remoteAdd(path, 'origin', 'https://example.com/b.git', { overwrite: true })
  assert.equal(await git.remoteGet(path, 'origin'), 'https://example.com/b.git')
})

check('push-clone-pull', ['Git#push(remote, branch, setUpstream)', 'Git#clone(path, branch, depth)',
  'Git#pull(remote, branch)'], async (t) => {
  const { s, path, git } = await repository(t)
  await git.init(t.path('origin.git'), { bare: true, initialBranch: 'main' })
  await git.remoteAdd(path, 'origin', t.path('origin.git'))
  await git.push(path, { remote: 'origin', branch: 'main', setUpstream: true })
  await git.clone(`file://${t.path('origin.git')}`, {
    path: t.path('clone'), branch: 'main', depth: 1
  })
  assert.equal(await s.files.read(t.path('clone/a.txt')), 'one\n')
  await s.files.write(`${path}/a.txt`, 'two\n')
  await git.add(path)
  await git.commit(path, 'second', author)
  await git.push(path)
  await git.pull(t.path('clone'), { remote: 'origin', branch: 'main' })
  assert.equal(await s.files.read(t.path('clone/a.txt')), 'two\n')
})

check('config', ['Git#setConfig(scope, path)', 'Git#getConfig(scope, path)'], async (t) => {
  const { path, git } = await repository(t)
  await git.setConfig('pull.rebase', 'true')
  assert.equal(await git.getConfig('pull.rebase'), 'true')
  await git.setConfig('pull.rebase', 'false', { scope: 'local', path })
  assert.equal(await git.getConfig('pull.rebase', { scope: 'local', path }), 'false')
  assert.equal(await git.getConfig('no.such', { scope: 'local', path }), undefined)
})

check('identity', ['Git#configureUser', 'Git#dangerouslyAuthenticate'], async (t) => {
  const s = await t.fresh()
  await s.git.configureUser('Bob', 'bob@example.com')
  assert.equal(await s.git.getConfig('user.name'), 'Bob')
  await s.git.dangerouslyAuthenticate({ username: 'bob', password: 'secret' })
  assert.match((await s.commands.run('cat ~/.git-credentials')).stdout, /bob:secret@github.com/)
})

check('failure', ['Git#status'], async (t) => {
  const s = await t.shared()
  await fails(s.git.status('/tmp'), e2b.CommandExitError)
})
