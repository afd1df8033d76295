components: none
definitions: widgets.yaml
ends: differ
user alice
  apply {"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"web"},"spec":{"size":"1Gi"}}
  patch widget web spec.size=2Gi spec.replicas=3
schedule
  6 hold: operator/cache persistentvolumeclaims
violates: one-claim

   2  alice creates widget default/web (rv 8)
   5  operator creates claim default/web-2k2lv of 1Gi (rv 9)
   6  >> the claim cache of operator is held from here on
   6  operator changes widget default/web: status.claims=0 (rv 10)
   8  operator lists the claims of default in its cache: none found (rv 7); it has not seen step 5, where it created claim default/web-2k2lv itself
   9  operator creates claim default/web-rtrwh of 1Gi (rv 11)
violation: one-claim: two claims of one widget: there are 2

stale-list
  alice
  │        API server
  │        │        operator
  o───────>8        │       2  alice creates widget default/web
  │        9  <─────o       5  operator creates claim default/web-2k2lv of 1Gi
  │        │        │          the claim cache of operator is held from here on
  │        10 <─────o       6  operator changes widget default/web: status.claims=0
  │        │        │            cache of operator: claim default/web-2k2lv is absent; actual state: Pending
  │        │        │       8  operator lists the claims of default in its cache: none found (rv 7); it has not seen step 5, where it created claim default/web-2k2lv itself
  │        11 <─────o       9  operator creates claim default/web-rtrwh of 1Gi
  │        │        ?9
At the end: cache of operator: claim default/web-2k2lv is absent; actual state: Pending
violation: one-claim: two claims of one widget: there are 2
o acts; left: resourceVersions, right: steps; ?7 has not seen 7

stale-list
Claims
  default/web-2k2lv ·································|Pending───────────────────────────────────────────────────────────
  default/web-rtrwh ··································································|Pending──────────────────────────
Widgets
  default/web       |exists─────────────────────────────────────────────────────────────────────────────────────────────
                                                                                      ^ invariant violated here
violation: one-claim: two claims of one widget: there are 2
