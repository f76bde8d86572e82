// Light is the default and used in print; dark follows the reader's system. In both, text has a contrast of at least
// 4.5 to 1 with its background, and no meaning depends on colour alone.
#include "campaign/page/style.h"

namespace stress {

const char *const kPageStyle = R"(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#16191d;--dim:#59616b;--edge:#dfe3e8;--track:#edf0f3;
--pass:#1a7a43;--pass-bg:#e4f5ea;--fail:#b3261e;--fail-bg:#fdeceb;--skip:#6a5300;--skip-bg:#fbf3d9;
--c0:#2f6fdb;--c1:#0e8f7e;--c2:#c77700;--c3:#8250c8;--c4:#c63d71;--c5:#6b7480;--live:#0e8f7e;--rss:#2f6fdb;
--link:#1d5bbf}
@media (prefers-color-scheme:dark){:root{--page:#0e1116;--card:#161b22;--ink:#e8ebef;--dim:#9aa4b0;--edge:#2a313b;
--track:#232a33;--pass:#5fd08d;--pass-bg:#12301f;--fail:#ff8a80;--fail-bg:#3a1a1a;--skip:#e5c767;--skip-bg:#332b12;
--c0:#6ea5ff;--c1:#3ec9b4;--c2:#f0a742;--c3:#b48cf2;--c4:#f27da6;--c5:#98a2ae;--live:#3ec9b4;--rss:#6ea5ff;
--link:#8ab8ff}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"DejaVu Sans",sans-serif;overflow-wrap:break-word}
main,.top{max-width:1180px;margin:0 auto;padding:0 20px}
.top{padding-top:20px}
.eyebrow{margin:0;color:var(--dim);font-size:13px;letter-spacing:.02em}
h1{margin:.15em 0 .35em;font-size:clamp(24px,3.4vw,32px);line-height:1.15;letter-spacing:-.02em;font-weight:680}
.name{white-space:nowrap}
.loss,b.bad{color:var(--fail);font-weight:650}
ul.verdicts{margin:12px 0;padding:0;list-style:none}ul.verdicts>li{margin:0 0 7px;max-width:100ch}
ul.broken,ul.worse{margin:2px 0 0;padding:0 0 0 10px;list-style:none;border-left:3px solid var(--fail);font-size:14px;line-height:1.45}
ul.worse{border-color:var(--edge);color:var(--dim);font-size:13px}ul.worse b{color:var(--ink);font-weight:600}
ul.broken b{color:var(--fail)}ul.broken .quality,ul.broken .quality b{color:var(--dim)}
ul.verdicts small{color:var(--dim);font-size:13px}
#comparison h3.apart{margin:16px 0 6px;font-size:16px}dl.losses{margin-top:0}dl.losses dt{font-weight:600;color:var(--ink)}dl.losses b{font-weight:550;color:var(--dim)}
h1.pass{color:var(--pass)}h1.fail{color:var(--fail)}
h2{margin:40px 0 6px;font-size:22px;letter-spacing:-.01em;line-height:1.25}
h3{margin:0;font-size:16px;line-height:1.4}
p{margin:.3em 0 1em;max-width:76ch}.lead{color:var(--dim)}
a{color:var(--link)}
nav{margin:8px 0 0;display:flex;flex-wrap:wrap;gap:4px 18px;font-size:14px}
.counts{margin:0 0 .4em;color:var(--dim)}.counts b{color:var(--ink);font-variant-numeric:tabular-nums}
.counts b.pass{color:var(--pass)}.counts b.fail{color:var(--fail)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:4px 18px;margin:0}
dt{color:var(--dim)}dd{margin:0;font-variant-numeric:tabular-nums}
.card{background:var(--card);border:1px solid var(--edge);border-radius:12px;padding:18px 20px;margin:0 0 16px}
.card.bad{box-shadow:inset 4px 0 var(--fail);border-left-color:var(--fail)}
.card h3 .badge{margin-right:8px}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));gap:16px;margin-top:16px;
align-items:start}
.grid .card{margin:0}.grid .card p.lead{margin:2px 0 4px;font-size:13px;line-height:1.4}
.grid .card:has(details[open]){grid-column:1/-1}
figure{margin:0 0 16px;min-width:0}
figcaption{margin-bottom:10px}
figcaption small{display:block;color:var(--dim);font-size:13px;line-height:1.45}
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr));gap:18px 26px}
.panel h4{margin:0 0 4px;font-size:14px;font-weight:600}
.badge{display:inline-block;border-radius:999px;padding:1px 10px;font-size:13px;font-weight:600;line-height:1.6;
white-space:nowrap}
.badge.pass{color:var(--pass);background:var(--pass-bg)}.badge.fail{color:var(--fail);background:var(--fail-bg)}
.badge.skip{color:var(--skip);background:var(--skip-bg)}
.scroll{overflow-x:auto;margin:0 -4px;padding:0 4px}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums;overflow-wrap:normal}
th,td{padding:6px 12px 6px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--edge)}
td,thead th{white-space:nowrap}.compared thead th{white-space:normal}
td.wrap{white-space:normal;min-width:14em}
thead th{color:var(--dim);font-weight:500;font-size:13px}
tbody th{font-weight:550;white-space:nowrap}
tr:last-child>*{border-bottom:0}
ul.card{margin:0 0 16px}ul.card.why{padding:18px 20px}
.n{text-align:right}
.none{color:var(--dim)}
#comparison h2{margin-top:18px}#comparison .grid{gap:12px;margin-top:12px;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr))}#comparison .card{padding:8px 14px;margin-left:0;margin-right:0}
#comparison>.lead{margin-top:14px}
table.compared{font-size:13px;line-height:1.4}table.compared th,table.compared td{padding:3px 8px 3px 0;
vertical-align:baseline}
table.compared tr>:last-child{padding-right:0}
table.compared th[scope=row]{white-space:nowrap}table.compared .badge{display:table}
table.compared thead th{font-size:12px;line-height:1.25;vertical-align:bottom}
table.compared small{color:var(--dim);font-size:12px;font-weight:400}table.compared td b{font-weight:650}
table.compared .badge{font-size:11px;padding:0 5px}
.compared i.dot{position:absolute;left:0;top:.55em;width:9px;height:9px;border-radius:50%}
table.compared th[scope=row]{position:relative;padding-left:15px}#comparison h3 small{font-weight:400;color:var(--dim)}#comparison .card{overflow-x:auto}#comparison h3{font-size:15px}
.bar{display:block;height:4px;margin-top:2px;border-radius:2px;background:var(--track)}
.bar i{display:block;height:4px;border-radius:2px}
#every-run>summary{margin-top:36px;font-size:16px}
details{margin-top:10px}
summary{cursor:pointer;color:var(--link);font-size:14px;max-width:100%}
details .scroll{margin-top:6px}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{margin:8px 0 0;padding:10px 14px;background:var(--track);border-radius:8px;white-space:pre-wrap;
overflow-wrap:anywhere}
pre code{user-select:all}
pre.command{overflow-x:auto;overflow-wrap:normal}
.command span{white-space:nowrap}
ul.why{margin:10px 0 0;padding:0;list-style:none}
ul.why li{margin:0 0 8px}
ul.why b{color:var(--fail)}
ul.why .detail{display:block;white-space:pre-wrap}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:10px 0 0;padding:0;list-style:none;font-size:13px;
color:var(--dim)}
.legend i{display:inline-block;width:18px;height:4px;border-radius:2px;margin-right:7px;vertical-align:middle}
.legend i.dot{width:10px;height:10px;border-radius:50%}
.legend i.area{height:10px;opacity:.3}
svg{display:block;width:100%;max-width:460px;height:auto;font:12px system-ui,-apple-system,"Segoe UI",Roboto,
"DejaVu Sans",sans-serif;overflow:visible}
.t{fill:var(--ink)}.t.dim{fill:var(--dim);font-size:11px}.t.bad{fill:var(--fail);font-size:11px}
.t.v{font-weight:600;font-variant-numeric:tabular-nums}.t.h{font-weight:600;font-size:12px}
.track{fill:var(--track)}
.grid line,.panels line,svg line.grid{stroke-width:1}
svg line.grid{stroke:var(--edge)}svg line.axis{stroke:var(--dim)}
svg line.bound{stroke:var(--fail);stroke-dasharray:5 4;stroke-width:1.3}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.line.live{stroke:var(--live);stroke-dasharray:1 3.4}.line.rss{stroke:var(--rss)}
.dot.live{fill:var(--live)}.dot.rss{fill:var(--rss)}
.gap{fill:var(--rss);opacity:.14}
svg line.whisker{stroke-width:2;opacity:.75}
svg .k-malloc{stroke:var(--c0)}svg .k-free{stroke:var(--c2)}
svg .dot.k-malloc{fill:var(--c0);stroke:var(--card);stroke-width:1}
svg .dot.k-free{fill:var(--c2);stroke:var(--card);stroke-width:1}
.c0{fill:var(--c0);background:var(--c0)}.c1{fill:var(--c1);background:var(--c1)}.c2{fill:var(--c2);background:var(--c2)}
.c3{fill:var(--c3);background:var(--c3)}.c4{fill:var(--c4);background:var(--c4)}.c5{fill:var(--c5);background:var(--c5)}
i.rss{background:var(--rss)}i.live{background:var(--live)}
footer{color:var(--dim);font-size:13px;margin:40px 0 48px}
:focus-visible{outline:2px solid var(--link);outline-offset:2px;border-radius:4px}
@media (max-width:520px){#comparison .card{padding:8px 10px}table.compared,table.compared thead th{font-size:11px}table.compared th,table.compared td{padding-right:6px}
table.compared small{font-size:11px}main,.top{padding-left:14px;padding-right:14px}.card{padding:14px}dl{grid-template-columns:1fr;
gap:0}dd{margin-bottom:8px}h2{margin-top:40px}}
@media print{:root{color-scheme:light;--page:#fff;--card:#fff;--ink:#000;--dim:#444;--edge:#bbb;--track:#eee;
--pass:#1a7a43;--fail:#b3261e;--skip:#6a5300;--c0:#2f6fdb;--c1:#0e8f7e;--c2:#c77700;--c3:#8250c8;--c4:#c63d71;
--c5:#6b7480;--live:#0e8f7e;--rss:#2f6fdb;--link:#000;--pass-bg:#fff;--fail-bg:#fff;--skip-bg:#fff}
body{font-size:11pt}nav,summary{display:none}.card,figure,.panel{break-inside:avoid}h2,h3{break-after:avoid}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
table{font-size:7.5pt}th,td{padding:3px 6px 3px 0}td.wrap{min-width:8em;overflow-wrap:anywhere}td:not(.n),thead th,tbody th{white-space:normal}
.grid{grid-template-columns:1fr}.panels{grid-template-columns:1fr 1fr}
.scroll,pre.command{overflow:visible}.command span{white-space:pre-wrap;overflow-wrap:anywhere}td code{white-space:normal;overflow-wrap:anywhere}
details:not(.long)::details-content{content-visibility:visible;block-size:auto}}
)";

}  // namespace stress
