// For apps.rust: collections, strings, threads that hand over boxes. cargo and rustc build it first.
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

fn sum() -> u64 {
    let (sender, receiver) = mpsc::channel::<Box<Vec<u64>>>();
    let makers: Vec<_> = (0..4u64)
        .map(|n| {
            let sender = sender.clone();
            thread::spawn(move || {
                for i in 0..5000 {
                    sender.send(Box::new((0..(i * 7 + n) % 300).collect())).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let sum = receiver.iter().map(|v| v.iter().sum::<u64>()).sum();
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    sum
}

fn main() {
    let mut map = HashMap::new();
    for i in 0..100_000u64 {
        map.entry(i % 7919).or_insert_with(Vec::new).push(format!("{}", i * i));
    }
    let sorted: BTreeMap<_, _> = map.iter().collect();
    let bytes: usize = sorted.values().flat_map(|v| v.iter()).map(String::len).sum();
    println!("{} {}", bytes, sum());
}

#[test]
fn the_sum_is_the_same_twice() {
    assert_eq!(sum(), sum());
}
