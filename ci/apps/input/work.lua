-- For apps.lua: tables that grow, strings, closures, coroutines, garbage.
local seed = 42
local function random(n) seed = seed * 48271 % 2147483647; return seed % n end
local words = {}
for i = 1, 100000 do words[i] = string.rep(string.char(97 + random(26)), random(60)) end
table.sort(words)
local sum = 0
for i, word in ipairs(words) do sum = (sum * 31 + #word * i) % 1000000007 end
print(sum)
local map = {}
for i = 1, 200000 do map["k" .. random(50000)] = {i, tostring(i), function() return i end} end
local count, total = 0, 0
for _, value in pairs(map) do count, total = count + 1, total + value[3]() end
print(count, total)
local function produce() for i = 1, 50000 do coroutine.yield(("x"):rep(i % 100)) end end
local routine, length = coroutine.wrap(produce), 0
for _ = 1, 50000 do length = length + #routine() end
print(length)
local text = table.concat(words, " "):gsub("a+", function(s) return #s end)
print(#text, select(2, text:gsub("%d", "")))
for _ = 1, 20 do
    local old = {}
    for i = 1, 20000 do old[i] = {i} end
    collectgarbage("step", 100)
end
collectgarbage()
print(#words)
