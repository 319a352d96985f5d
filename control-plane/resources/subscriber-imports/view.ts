import {
  fullViews,
  listViews as sharedListViews,
  type ImportSummary,
} from '../../../shared/processes/import-views.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { ImportSummaryView, ImportView } from './schemas.ts'

/** Import documents as replies. The compiler checks the shared views against the schemas that describe them. */

export async function fullView(
  { database, secrets }: ControlPlane,
  document: ImportDocument,
): Promise<ImportView> {
  const [view] = await fullViews(database.collections, [document], secrets)
  if (view === undefined) throw new Error('an import has no view')
  return view
}

export const listViews = (
  { database, secrets }: ControlPlane,
  documents: ImportSummary[],
): Promise<ImportSummaryView[]> => sharedListViews(database.collections, documents, secrets)
