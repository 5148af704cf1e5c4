"""The memory as an HTTP service, and the client that speaks to one.

`alma.http.server` is what `alma serve` runs, `alma.http.tokens` what `alma token` changes, and
`ALMA.connect(url, token)` gives an `alma.http.client.RemoteALMA`. Nothing is loaded before it is used.
"""
