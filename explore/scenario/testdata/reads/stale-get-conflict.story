components: none
definitions: widgets.yaml
ends: differ
user alice
  apply {"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"web"},"spec":{"size":"1Gi"}}
  patch widget web spec.size=2Gi spec.replicas=3
schedule
  8 hold: operator/cache widgets

   2  alice creates widget default/web (rv 8)
   5  operator creates claim default/web-2k2lv of 1Gi (rv 9)
   7  operator changes widget default/web: status.claims=0 (rv 10)
   8  >> the widget cache of operator is held until step 11
   8  operator reads widget default/web in its cache (rv 8); it has not seen step 7, where it changed it itself
   9  operator gets a conflict for its update/status of widget default/web
      (it had read it in its cache in step 8, without step 7)
  10  alice changes widget default/web: spec.replicas=3, spec.size 1Gi → 2Gi (rv 11)
  11  the widget cache of operator sees step 7 only now
  12  operator reads widget default/web in its cache (rv 10); it has not seen step 10, where alice changed it
  13  operator gets a conflict for its update/status of widget default/web
      (it had read it in its cache in step 12, without step 10)
  14  the widget cache of operator sees step 10 only now
  16  operator changes widget default/web: status.claims 0 → 1 (rv 12)
no invariant violated; final state: 1 claim Pending

stale-get-conflict
  alice
  │        API server
  │        │        operator
  o───────>8        │       2  alice creates widget default/web
  │        9  <─────o       5  operator creates claim default/web-2k2lv of 1Gi
  │        │        !9
  │        10 <─────o       7  operator changes widget default/web: status.claims=0
  │        │        │            cache of operator: claim default/web-2k2lv is absent; actual state: Pending
  │        │        │          the widget cache of operator is held until step 11
  │        │        │       8  operator reads widget default/web in its cache (rv 8); it has not seen step 7, where it changed it itself
  │        x   ╌╌╌╌╌o       9  operator gets a conflict for its update/status of widget default/web and will retry
  o───────>11       │      10  alice changes widget default/web: spec.replicas=3, spec.size 1Gi → 2Gi
  │        │        !10
  │        │        │      12  operator reads widget default/web in its cache (rv 10); it has not seen step 10, where alice changed it
  │        x   ╌╌╌╌╌o      13  operator gets a conflict for its update/status of widget default/web and will retry
  │        │        !11
  │        12 <─────o      16  operator changes widget default/web: status.claims 0 → 1
no invariant violated; final state: 1 claim Pending
o acts; left: resourceVersions, right: steps; x refused; !7 sees 7 after acting without it

stale-get-conflict
Claims
  default/web-2k2lv                         ····················|Pending────────────────────────────────────────────────────────────────────────
Widgets
  default/web                               |exists─────────────────────────────────────────────────────────────────────────────────────────────
Retries
  operator update/status widget default/web ········································x───────────────────x───────────────────o···················
no invariant violated; final state: 1 claim Pending
