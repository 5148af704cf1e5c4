-- Run once by the image of PostgreSQL, as its superuser. The role of alma is none, so that row-level security applies.
\getenv password ALMA_DB_PASSWORD
CREATE ROLE alma LOGIN PASSWORD :'password';
CREATE DATABASE alma OWNER alma;
\connect alma
CREATE EXTENSION IF NOT EXISTS vector;
