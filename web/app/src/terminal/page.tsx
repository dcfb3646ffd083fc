import type { PageProps } from '../app'
import { Bar } from '../ui/bar'

export default function Page(_: PageProps) {
  return <Bar />
}
