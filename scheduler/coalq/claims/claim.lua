-- claim(keys, owner, lease_ms) -> one number per key, in order: 1 won, 0 held by another owner
--
-- KEYS     coalq:claim:<coalition key>   string, the owner's process id, expires after the lease
-- ARGV[1]  owner, the process id of the asker
-- ARGV[2]  lease in milliseconds
--
-- A key the asker owns already is won again and its lease starts anew: the answer to an earlier call may have been
-- lost on the way. Keys are independent, so a crash in mid-script leaves some claimed, and those expire.
local answers = {}
for i, key in ipairs(KEYS) do
  if redis.call('SET', key, ARGV[1], 'NX', 'PX', ARGV[2]) then
    answers[i] = 1
  elseif redis.call('GET', key) == ARGV[1] then
    redis.call('PEXPIRE', key, ARGV[2])
    answers[i] = 1
  else
    answers[i] = 0
  end
end
return answers
