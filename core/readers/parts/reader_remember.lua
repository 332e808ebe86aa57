-- Remembers in `events` that `event` was applied at `clock`. Ten thousand of a reader in a day; beyond them the oldest can count twice.
call('ZREMRANGEBYSCORE', events, '-inf', clock - 86400)
call('ZADD', events, clock, event)
call('ZREMRANGEBYRANK', events, 0, -10001)
call('EXPIRE', events, 86400)
