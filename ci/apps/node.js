// Work of the node test: prints the same lines on any malloc.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');

function generator(seed) { // of numbers below a limit
    let state = seed;
    return limit => (state = Number((BigInt(state) * 48271n) % 2147483647n)) % limit;
}

function digest(seed) {
    const random = generator(seed);
    const hash = crypto.createHash('sha256');
    for (let round = 0; round < 40; round++) {
        const object = {};
        for (let i = 0; i < 200; i++) object['key' + random(1000)] = ['v'.repeat(random(100)), random(1e6), { i }];
        const text = JSON.stringify(object);
        if (JSON.stringify(JSON.parse(text)) !== text) throw new Error('JSON changed its document, seed ' + seed);
        const packed = zlib.deflateSync(text);
        if (zlib.inflateSync(packed).toString() !== text) throw new Error('zlib changed its input, seed ' + seed);
        const buffers = [];
        for (let i = 0; i < 60; i++) {
            const zeros = Buffer.alloc(random(1 << random(17)) + 1);
            if (zeros.some(byte => byte !== 0)) throw new Error('Buffer.alloc is not zero, seed ' + seed);
            buffers.push(zeros.fill(random(256)));
        }
        hash.update(text).update(Buffer.concat(buffers));
    }
    return hash.digest('hex');
}

if (isMainThread) {
    const results = [];
    let running = 4;
    for (let seed = 1; seed <= 4; seed++) {
        const worker = new Worker(__filename, { workerData: seed });
        worker.on('message', text => { results[seed] = text; });
        worker.on('error', error => { throw error; });
        worker.on('exit', code => {
            if (code !== 0) throw new Error('worker ' + seed + ' ended with ' + code);
            if (--running === 0) console.log(results.slice(1).join('\n'));
        });
    }
    console.log(digest(99));
} else {
    parentPort.postMessage(digest(workerData));
}
