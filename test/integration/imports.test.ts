// The first one: it counts that an inspection writes nothing at all.
import './imports/import-inspection.ts'
import './imports/import-rows.ts'
import './imports/import-moves.ts'
import './imports/import-events.ts'
import './imports/counts-and-jobs.ts'
import './imports/chores.ts'
