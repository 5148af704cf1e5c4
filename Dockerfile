# The HTTP service of alma, for teams on PostgreSQL: see docs/how-to/serve.md.
FROM python:3.12-slim AS build
ARG EXTRAS=postgres,http,local,mcp
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
COPY plugin ./plugin
RUN python -m venv /opt/alma && /opt/alma/bin/pip install --no-cache-dir -c constraints.txt ".[${EXTRAS}]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin alma \
    && install -d -o alma -g alma -m 700 /data
COPY --from=build /opt/alma /opt/alma
COPY docker/config.yaml /etc/alma/config.yaml
# No secrets here: ALMA_DSN and ALMA_HTTP_TOKEN come from the environment of the container.
ENV PATH=/opt/alma/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ALMA_CONFIG=/etc/alma/config.yaml \
    ALMA_TOKENS_FILE=/data/http-tokens.json
USER alma
WORKDIR /data
VOLUME /data
EXPOSE 8766
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8766/health', timeout=3)"]
ENTRYPOINT ["alma"]
# --insecure: a proxy in front of the container terminates TLS.
CMD ["serve", "--host", "0.0.0.0", "--port", "8766", "--insecure", "--allowed-host", "localhost", \
     "--allowed-host", "127.0.0.1", "--workers", "4", "--drain", "5"]
