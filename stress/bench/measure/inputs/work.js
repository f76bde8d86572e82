// Work of ci/bench apps: JSON, maps, strings, buffers and zlib. Prints a digest.
'use strict';
const crypto = require('crypto');
const zlib = require('zlib');
let state = 42;
const random = limit => (state = Number((BigInt(state) * 48271n) % 2147483647n)) % limit;
const hash = crypto.createHash('sha256');
const kept = [];
for (let round = 0; round < 160; round++) {
    const object = {};
    for (let i = 0; i < 2000; i++) object['key' + random(5000)] = ['v'.repeat(random(100)), random(1e6), { i }];
    const text = JSON.stringify(object);
    kept.push(JSON.parse(text));
    if (kept.length > 8) kept.shift();
    const buffers = [];
    for (let i = 0; i < 40; i++) buffers.push(Buffer.alloc(random(1 << random(18)) + 1, i));
    hash.update(zlib.deflateSync(text, { level: 1 })).update(Buffer.concat(buffers));
}
console.log(hash.digest('hex'), kept.length);
