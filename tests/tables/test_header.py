"""Header: a first line that looks like a record is refused, for column names are published."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from support.commands import Fmwem

from factored_mwem import evaluate, release
from factored_mwem.domain.dialect import OUR_OWN, Dialect
from factored_mwem.errors import InputError
from factored_mwem.tables.inputs.source import open_table

HEADERS = """\
age,workclass,fnlwgt,education,education-num,marital-status,occupation,capital-gain,hours-per-week,income
PassengerId,Survived,Pclass,Name,Sex,Age,SibSp,Parch,Ticket,Fare,Cabin,Embarked
,name,host_id,neighbourhood_group,latitude,longitude,room_type,price
sepal.length,sepal.width,petal.length,petal.width,variety
"mpg","cyl","disp","hp","drat","wt","qsec","vs","am","gear","carb"
year,month,day,dep_time,sched_dep_time,dep_delay,carrier,flight,tailnum,origin,dest,air_time,time_hour
PUMA,AGEP,SEX,MSP,HISP,RAC1P,NOC,NPF,HOUSING_TYPE,OWN_RENT,DENSITY,INDP,PINCP,WGTP
carat,cut,color,clarity,depth,table,price,x,y,z
Date,Open,High,Low,Close,Adj Close,Volume
Diabetes_012,HighBP,HighChol,CholCheck,BMI,Smoker,Stroke,NoDocbcCost,GenHlth,MentHlth
user id,1st visit,2nd visit,% paid,# of children,50 m sprint
hotel,is_canceled,lead_time,arrival_date_year,adults,children,babies,meal,country,adr
Naam,Leeftijd,Geslacht,Inkomen (EUR)
Identifiant;Âge;Sexe;Revenu
名前,年齢,性別
VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,RatecodeID,PULocationID,total_amount
q1,q2,q3,q4a,q4b
V1,V2,V3,V4,Class
ID,LIMIT_BAL,SEX,EDUCATION,PAY_0,BILL_AMT1,default payment next month
duration,protocol_type,service,flag,src_bytes,label
Recency (months),Frequency (times),Monetary (c.c. blood),Time (months)
TRUE_LABEL,none_of_these,null_count
county,state,cases_2020,cases_2021
a,b,c
source,target
from,to,weight
Country Name,Country Code,Indicator Name
unit.of.measure,2nd_try,3d
"last name","first name","date of birth"
time (s),speed (m/s),N/A rate
week 12,May,1 May rate,(n),March 3
e-mail,@handle,url (https),[kg],{unit}
2020Q1,2020Q2,65+ years,<5 years,Q1 2020
x1e5,1e,e5,1st,0x""".splitlines()
RECORDS = """\
39,State-gov,77516,Bachelors,13,Never-married,Adm-clerical,2174,40,<=50K
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Male, 2174, 0, 40, <=50K
1,0,3,"Braund, Mr. Owen Harris",male,22,1,0,A/5 21171,7.25,,S
5.1,3.5,1.4,0.2,Iris-setosa
Mazda RX4,21,6,160,110,3.9,2.62,16.46,0,1,4,4
2013,1,1,517,515,2,UA,1545,N14228,EWR,IAH,227,2013-01-01T10:00:00Z
0,tcp,http,SF,181,5450,normal.
73,Not in universe,0,0,Not in universe,?,- 50000.
0.0,1.0,1.0,1.0,40.0,1.0,0.0
Smith,1984-02-01,Berlin
Smith,01.02.1984,Berlin
Smith,2/1/84,Boston
Ann,yes,$1500
Ann,yes,"1.234,50"
Ann,yes,12%
Ann,8:30,yes
Ann,08:30:15.5,yes
Ann,NA,yes
Ann,n/a,yes
Ann,?,yes
Ann,,yes
red,red,blue
M,-1,N
M,+3,N
M,1e-5,N
M,.5,N
M,NaN,N
M,(31),N
M,\u221231,N
Ann,31 Dec 2020,yes
Ann,3-Jan-98,yes
Ann,"March 3, 2020",yes
0,1
true,Ann,Bonn
Ann,2024-03,yes
Ann,(555) 123-4567,yes
Ann,+49 30 123456,yes
Ann,2020/21,yes
Ann,12-15,yes
Ann,ann@example.org,yes
Ann,https://example.org/ann,yes
Ann,3f2504e0-4f89-11d3-9a0c-0305e82c3301,yes
Ann,US$ 12,10.5
"{""name"": ""Ann"", ""age"": 44}"
Ann,   ,yes
   ,Ann,yes
Ann,2013-01-01T10:00:00Z,yes
Ann,2013-01-01 10:00:00+02:00,yes
Ann,08:30 am,yes""".splitlines()


def written(folder: Path, first: str, *others: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([first, *others, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize("header", HEADERS)
def test_names_are_read_as_names(header: str, tmp_path: Path) -> None:
    names = next(csv.reader([header], delimiter=";" if ";" in header else ","))
    assert open_table(written(tmp_path, header)).schema.names == [name for name in names if name]


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("kind", ["plain", "gzip", "folder"])
def test_a_record_is_not_taken_for_names(record: str, kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, record)
    if kind == "gzip":
        packed = gzip.compress(path.read_bytes())
        path = tmp_path / "t.csv.gz"
        path.write_bytes(packed)
    with pytest.raises(InputError, match="--header none and --names a,b,c") as refused:
        open_table(tmp_path if kind == "folder" else path)
    cells = next(csv.reader([record], skipinitialspace=True))
    quoted = str(refused.value).replace(str(path), "").replace("t.csv", "")
    assert not any(cell in quoted.split() for cell in cells if len(cell) > 1)  # it is somebody's


def test_a_part_of_a_folder_without_its_header_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "age,job", "31,nurse", name="1.csv")
    written(tmp_path, "44,pilot", name="2.csv")
    with pytest.raises(InputError, match=r"2\.csv: column 1 of the header looks like a value"):
        open_table(tmp_path)


def test_standard_input_without_a_header_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"44,pilot\n31,nurse\n")))
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(InputError, match="--header none"):
        open_table("-")


HOSTILE = {
    "long": b"a" * 10_000_000 + b",b\n1,2\n",
    "wide": b"c," * 5_000_000 + b"d\n1\n",
    "nul": b"a\0b,c\n1,2\n",
    "mark alone": b"\xef\xbb\xbf\n1,2\n",
    "mark and record": b"\xef\xbb\xbf44,pilot\n",
    "commas": b",,,,\n1,2,3,4,5\n",
    "semicolons": b";;;\n1;2;3;4\n",
    "tabs": b"\t\t\n1\t2\t3\n",
    "blanks": b"   \n1\n",
    "open quote": b'"a,b\n1,2\n',
    "open quote, long": b'"' + b"a,b\n1,2\n" * 1_000_000,
    "open at the end": b'a,"b\n1,2\n',
    "one column": b"44\npilot\n",
    "no line": b"",
    "two marks": b"\xff\xfe\xff\xfe",
    "old Mac": b"a,b\r1,2\r",
    "record": b"44,pilot\n31,nurse\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("how", ["csv", "gzip", "part", "stdin"])
def test_a_hostile_header_is_one_line_of_refusal(
    kind: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, path = HOSTILE[kind], tmp_path / "t.csv"
    path.write_bytes(data)
    source: Path | str = path
    if how == "gzip":
        source = tmp_path / "t.csv.gz"
        source.write_bytes(gzip.compress(data, 1))
    if how == "part":
        source = tmp_path / "parts"
        source.mkdir()
        written(source, "a,b", "1,2", name="1.csv")
        path.rename(source / "2.csv")
    if how == "stdin":
        source = "-"
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
        monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(InputError) as refused:
        open_table(source)
    said = str(refused.value)
    assert "\n" not in said and len(said) < 400 + len(str(path)) and "\0" not in said


@pytest.mark.parametrize(("cell", "names"), [("1", 0), ("1.", 0), ("1e", 2), ("a@", 2), ("[:", 0), ("1-", 0)])
def test_a_long_name_is_looked_at_once(cell: str, names: int, tmp_path: Path) -> None:
    """A pattern that went back and forth over it would take minutes."""
    path = written(tmp_path, f"{cell * 65_000},b")
    if names:
        assert len(open_table(path).schema.names) == names
        return
    with pytest.raises(InputError, match="looks like a value"):
        open_table(path)


def test_a_file_that_is_packed_may_come_through_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(b"age,job\n44,pilot\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(packed))))
    assert open_table("-").schema.names == ["age", "job"]


def test_years_may_be_names(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "country,1960,1961", "a,1,2"), dialect=OUR_OWN)
    assert table.schema.names == ["country", "1960", "1961"]
    assert sum(batch.num_rows for batch in table.batches(["1960"])) == 1


NO_HEADER = Dialect(header="none", names="age,job")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("lines", [[], ["44,pilot", "31,nurse"]])
def test_with_no_header_a_line_is_a_record(end: str, mark: bytes, lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(mark + "".join(line + end for line in lines).encode())
    batches = open_table(path, dialect=NO_HEADER).batches(["age", "job"])
    assert [",".join(row.values()) for batch in batches for row in batch.to_pylist()] == lines


@pytest.mark.parametrize("first", ["44;pilot", "a|b,c", '"', "x" * 100, "", "44,pilot,3", "44,pilot\r"])
def test_without_a_header_the_first_record_decides_nothing_about_others(first: str, tmp_path: Path) -> None:
    """Neither the sign between columns nor the end of lines is read off somebody's record."""
    path = written(tmp_path, first, "31,nurse", "32,cook")
    table = open_table(path, "lines", NO_HEADER)
    (batch,) = table.batches(["age", "job"])
    assert batch.slice(batch.num_rows - 2).to_pydict() == {"age": ["31", "32"], "job": ["nurse", "cook"]}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"header": "none"}, "--names a,b,c"),
        ({"names": "a,b"}, "--header none"),
        ({"header": "none", "names": "a,,b"}, "none of them empty"),
        ({"header": "none", "names": ["a", "a"]}, "different from each other"),
    ],
)
def test_header_and_names_belong_together(given: dict[str, str], why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        release(written(tmp_path, "44,pilot"), 1, **given)  # type: ignore[arg-type]


def test_the_command_spends_nothing_on_a_record(command_books: Path, fmwem: Fmwem) -> None:
    path = written(command_books.parent, *["44,pilot", "31,nurse"] * 1000, name="raw.csv")
    refused = fmwem("release", path.name, "--marginals", 1, *BOOKS)
    assert refused.code == 2
    assert "--header none and --names a,b,c" in refused.err
    assert "pilot" not in refused.out + refused.err
    assert not list(command_books.parent.glob("raw.synthetic*"))


def test_a_release_whose_columns_are_called_like_values_is_evaluated(tmp_path: Path) -> None:
    path = written(tmp_path, "1960,1961", *["a,b", "b,a"] * 50)
    domain = {"fields": [{"name": name, "categories": ["a", "b"]} for name in ("1960", "1961")]}
    release(path, 1, domain=domain, header="first", rows=50).write(tmp_path / "s.csv")
    evaluate(path, tmp_path / "s.csv", 1, dialect=Dialect(header="first"))
    with pytest.raises(InputError, match="--header first"):
        evaluate(path, tmp_path / "s.csv", 1)


BOOKS = ("--ledger", "books", "--dataset", "adult")


@pytest.mark.parametrize("said", [("--header", "none", "--names", "age,job"), ()], ids=["none", "first"])
def test_a_record_speaks_of_its_header(said: tuple[str, ...], command_books: Path, fmwem: Fmwem) -> None:
    """An auditor's check compares these sentences, and takes both."""
    first = "44,pilot" if said else "age,job"
    path = written(command_books.parent, first, *["31,nurse", "44,pilot"] * 4000, name="raw.csv")
    assert fmwem("release", path.name, "--marginals", 1, *said, *BOOKS).code == 0
    assert open_table(path.with_name("raw.synthetic.parquet")).schema.names == ["age", "job"]
    manifest = path.with_name("raw.synthetic.manifest.json")
    assumptions = json.loads(manifest.read_text(encoding="utf-8"))["guarantee"]["assumptions"]
    told = [assumptions[which]["statement"] for which in ("columns", "records")]
    assert all(("header" in sentence) == (not said) for sentence in told), told
    checked = fmwem("ledger", "verify", "books", manifest.name)
    assert checked.code == 0, checked.out
