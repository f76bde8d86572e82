# For apps.ruby: strings, hashes, big numbers, threads, fibers, fork, and a heap that is collected and compacted.
require "digest"
random = Random.new(42)
words = Array.new(20_000) { (0...random.rand(3..40)).map { (97 + random.rand(26)).chr }.join }
puts Digest::MD5.hexdigest(words.sort.join(","))
counts = words.each_with_object(Hash.new(0)) { |word, hash| word.each_char { |c| hash[c] += 1 } }
puts counts.sort.inspect
puts Digest::MD5.hexdigest((1..400).reduce(:*).to_s + 3.pow(9000).to_s)
results = 8.times.map { |n| Thread.new { (1..3000).map { |i| "#{n}-#{i}" * (i % 7) }.join.size } }.map(&:value)
puts results.inspect
fiber = Fiber.new { 1000.times { |i| Fiber.yield "f" * i }; nil }
total = 0
while (text = fiber.resume) do total += text.size end
puts total
GC.start
GC.compact if GC.respond_to?(:compact)
reader, writer = IO.pipe
child = fork { reader.close; writer.write(Marshal.dump(words.first(5000))); writer.close; exit!(0) }
writer.close
puts Digest::MD5.hexdigest(Marshal.load(reader.read).join)
Process.wait(child)
puts words.map { |word| word.gsub(/([aeiou])/) { $1.upcase * 3 } }.select { |word| word =~ /A{3}.*E{3}/ }.size
