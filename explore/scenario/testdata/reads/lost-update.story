components: none
definitions: widgets.yaml
ends: differ
user alice
  apply {"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"web"},"spec":{"size":"1Gi"}}
  patch widget web spec.size=2Gi spec.replicas=3
schedule
  6 pick: alice

   2  alice creates widget default/web (rv 8)
   4  operator reads widget default/web in its cache (rv 8)
   5  operator creates claim default/web-2k2lv of 1Gi (rv 9)
   6  >> alice is scheduled out of order
   6  alice changes widget default/web: spec.replicas=3, spec.size 1Gi → 2Gi (rv 10)
   9  operator changes widget default/web: status.claims=0 (rv 11)
      (it had read it in its cache in step 4, before step 6, where alice changed it)
  12  operator changes widget default/web: status.claims 0 → 1 (rv 12)
no invariant violated; final state: 1 claim Pending

lost-update
  alice
  │        API server
  │        │        operator
  o───────>8        │       2  alice creates widget default/web
  │        │        │       4  operator reads widget default/web in its cache (rv 8)
  │        9  <─────o       5  operator creates claim default/web-2k2lv of 1Gi
  o───────>10       │       6  alice changes widget default/web: spec.replicas=3, spec.size 1Gi → 2Gi
  │        │        !9
  │        11 <─────o       9  operator changes widget default/web: status.claims=0
  │        │        │            operator decided in step 4, before step 6
  │        │        │            cache of operator: claim default/web-2k2lv is absent; actual state: Pending
  │        12 <─────o      12  operator changes widget default/web: status.claims 0 → 1
no invariant violated; final state: 1 claim Pending
o acts; left: resourceVersions, right: steps; !7 sees 7 after acting without it

lost-update
Claims
  default/web-2k2lv ··················································|Pending──────────────────────────────────────────
Widgets
  default/web       |exists─────────────────────────────────────────────────────────────────────────────────────────────
no invariant violated; final state: 1 claim Pending
