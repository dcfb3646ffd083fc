import { wakeAll } from './frame'

/** How long printing waits for outputs that are still loading, in ms. */
const patience = 10_000

/** Opens the browser's dialog for printing, which also saves as PDF, once all outputs are there. */
export async function printPage(): Promise<void> {
  await Promise.race([wakeAll(), new Promise((resolve) => setTimeout(resolve, patience))])
  print()
}
