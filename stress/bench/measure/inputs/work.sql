-- Work of ci/bench apps. Its numbers come from a multiplicative generator, so that every run is the same.
pragma cache_size = -8000;
create table item(id integer primary key, k integer, name text, body blob);
begin;
insert into item
    with recursive step(id, r) as (
        values(1, 12345)
        union all
        select id + 1, (r * 48271) % 2147483647 from step where id < 120000)
    select id, r % 30000, printf('name-%d-%.*c', r % 977, r % 60, 'x'), zeroblob(r % 300) from step;
commit;
create index item_k on item(k, name);
create index item_name on item(name);
select count(*), sum(k), sum(length(name)), sum(length(body)) from item;
select a.k, count(*), min(b.name) from item a join item b on a.k = b.k and a.id < b.id group by a.k
    having count(*) > 12 order by 2 desc, 1 limit 20;
select k % 100, count(distinct name), length(group_concat(id)) from item group by 1;
begin;
update item set name = name || '-' || k where id % 3 = 0;
delete from item where k % 7 = 0;
commit;
select name, row_number() over (partition by k % 10 order by name desc, id) from item order by 2 desc, 1 limit 20;
select count(*), sum(length(upper(name))), sum(length(replace(name, 'x', 'yz'))) from item;
