-- renew(keys, owner, lease_ms) -> one number per key, in order: 1 renewed, 0 no longer owned
--
-- KEYS     coalq:claim:<coalition key>   string, the owner's process id, expires after the lease
-- ARGV[1]  owner, the process id of the asker
-- ARGV[2]  lease in milliseconds, from now
--
-- A claim that expired is not taken again: its key may have been claimed, committed and released by others meanwhile.
local answers = {}
for i, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    redis.call('PEXPIRE', key, ARGV[2])
    answers[i] = 1
  else
    answers[i] = 0
  end
end
return answers
