-- release(keys, owner) -> how many claims were given up
--
-- KEYS     coalq:claim:<coalition key>   string, the owner's process id, expires after the lease
-- ARGV[1]  owner, the process id of the asker
--
-- A claim of another owner stays: ours may have expired and the key been claimed anew.
local released = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    released = released + redis.call('DEL', key)
  end
end
return released
