-- Input of the sqlite test. Its numbers come from a multiplicative generator, so that every run is the same.
pragma journal_mode = memory;
pragma cache_size = -2000;
create table item(id integer primary key, k integer, name text, body blob);
begin;
insert into item
    with recursive step(id, r) as (
        values(1, 12345)
        union all
        select id + 1, (r * 48271) % 2147483647 from step where id < 20000)
    select id, r % 5000, printf('name-%d-%.*c', r % 977, r % 60, 'x'), zeroblob(r % 300) from step;
commit;
create index item_k on item(k, name);
create index item_name on item(name);
create table big(id integer primary key, body text);
insert into big select id, printf('%.*c', (id * 7919) % 200000, char(65 + id % 26)) from item where id % 500 = 0;
select count(*), sum(k), sum(length(name)), sum(length(body)) from item;
select sum(length(body)), max(length(body)) from big;
select a.k, count(*), min(b.name), max(a.id) from item a join item b on a.k = b.k and a.id < b.id
    group by a.k having count(*) > 12 order by 2 desc, 1 limit 20;
select k % 100, count(distinct name), group_concat(id) from (select * from item where k < 400 order by id) group by 1;
begin;
update item set name = name || '-' || k where id % 3 = 0;
delete from item where k % 7 = 0;
savepoint undo;
update item set body = name where id % 2 = 0;
rollback to undo;
commit;
select count(*), sum(length(name)), sum(length(body)) from item;
with recursive words(n, text) as (values(1, 'a') union all select n + 1, text || char(97 + n % 26) from words where n < 2000)
    select sum(length(text)), max(text) > 'abc' from words;
select upper(substr(body, 1, 20)), instr(body, 'Z'), length(replace(body, substr(body, 1, 1), 'yy')) from big order by id;
select name, row_number() over (partition by k % 10 order by name desc, id) from item order by 2 desc, 1 limit 20;
vacuum;
pragma integrity_check;
