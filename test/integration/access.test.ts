import './access/users.ts'
import './access/authentication.ts'
import './access/envelope.ts'
import './access/http-hardening.ts'
