// Runs code and a command in a sandbox with E2B's own package.
import { Sandbox } from '@e2b/code-interpreter'

const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
await sandbox.files.write('sales.csv', 'month,sold\n1,3\n2,5\n')
const execution = await sandbox.runCode(`
import pandas
table = pandas.read_csv("sales.csv")
print(len(table), "months")
int(table.sold.sum())
`)
console.log(execution.logs.stdout.join('') + 'sold: ' + execution.text)
const listing = await sandbox.commands.run('ls *.csv')
console.log(listing.stdout.trim())
await sandbox.kill()
