# Work of ci/bench apps: strings, arrays, hashes, objects and regular expressions. Prints a digest.
require "digest"
Node = Struct.new(:key, :text, :children)
random = Random.new(42)
digest = Digest::SHA256.new
kept = []
8.times do |round|
  words = Array.new(40_000) { (97 + random.rand(26)).chr * random.rand(3..60) }
  groups = words.group_by { |word| word[0] + word.size.to_s }
  digest.update(groups.keys.sort.join(","))
  kept << groups.map { |key, members| Node.new(key, members.join(" "), members.map { |m| Node.new(m, m.upcase, []) }) }
  kept.shift if round.odd?
  digest.update(words.map { |word| word.gsub(/([aeiou])/) { $1.upcase } }.select { |word| word =~ /A{3}/ }.size.to_s)
end
puts digest.hexdigest, kept.size
