import './effects/reactions.ts'
import './effects/subscriber-effects.ts'
import './effects/subscriber-limit.ts'
